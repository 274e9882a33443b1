"""Lines for subword models."""

TEXT = """letter bicycle lamp window garden river station market winter summer question answer teacher doctor carpet
neighbour orchestra newspaper telegram mountain harbour lighthouse journey kitchen breakfast umbrella photograph
Müller's remembers forgot listening wandered carefully quietly yesterday tomorrow beautiful dangerous ordinary"""
WORDS = TEXT.split()
LINES = [f"{a} {b} , {c} ." for i, a in enumerate(WORDS) for b in WORDS[i % 5 :: 5] for c in WORDS[i % 7 :: 7]]

"""Tasks beside translation: text classification and sentence vectors."""

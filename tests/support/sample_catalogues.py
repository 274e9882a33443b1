"""A small file of every kind of catalogue and subtitles, and of XML and Markdown kinds that are files of their own."""

# ruff: noqa: E501  (files as they are)

from __future__ import annotations

JSON = r"""{
  "en": {
    "title" : "The old dog",
    "list": [1, true, "item one", {"deep": "The <b>big</b> house\nand a \"cat\" \u00e9"}],
    "dogs": "You have {n, plural, =0 {no dogs} one {# dog, it''s {name}} other {# dogs}} left",
    "empty": "", "number": "42", "url": "http:\/\/a.b\/c sees it"
  }
}
"""
YAML = """# comment
en:
  title: The old dog   # why
  quoted: 'It''s a house'
  double: "two\\nlines and a \\"cat\\""
  yes: no
  number: 42
  text: |
    First line.

    Third line
  folded: >-
    Folded text
    goes on.
  list: [one dog, "two cats", &a Anchored text]
  again: *a
  plural: {one: One dog, other: '%{count} dogs'}
"""
PROPERTIES = """# comment
! another
title=The old dog
greeting : Hello {0}, it''s \\u00fc here
long = A text that \\
    goes on.\\nNew line
empty=
key\\ two Value of it
number=42
"""
STRINGS = """/* The title */
"title" = "The old dog";
// another
NSName = "Hello %1$@, \\"friend\\"\\nNew line";
"number" = "42";
"""
ANDROID = """<?xml version="1.0" encoding="utf-8"?>
<!-- kept -->
<resources xmlns:xliff="urn:oasis:names:tc:xliff:document:1.2">
    <string name="title">The <b>old</b> dog\\'s house</string>
    <string name="code" translatable="false">No</string>
    <string name="other">@string/title</string>
    <string name="who">Hello <xliff:g id="n">%1$s</xliff:g>,\\nit  sees
        you\\u0020</string>
    <string name="html"><![CDATA[A <b>big</b> cat]]></string>
    <string-array name="days"><item>Monday morning</item><item>42</item></string-array>
    <plurals name="dogs"><item quantity="one">%d dog</item><item quantity="other">%d dogs</item></plurals>
    <color name="c">#fff</color>
</resources>
"""
RESX = """<?xml version="1.0" encoding="utf-8"?>
<root>
  <resheader name="version"><value>2.0</value></resheader>
  <data name="Title" xml:space="preserve"><value>The old dog
and {0} </value><comment>no</comment></data>
  <data name="Icon" type="System.Drawing.Bitmap" mimetype="x"><value>aWNvbg==</value></data>
  <data name="Size" type="System.Drawing.Size, System.Drawing"><value>1, 2</value></data>
  <data name="&gt;&gt;label.Name" xml:space="preserve"><value>label</value></data>
  <data name="label.Text" xml:space="preserve"><value>A &lt;b&gt; cat</value></data>
</root>
"""
VTT = """WEBVTT - a film

STYLE
::cue { color: red }

NOTE no text

one
00:01.000 --> 00:02.000 align:start
<v Anna>The old dog
sees the house, and the cat sleeps in it.

00:00:03.000 --> 00:00:04.000
- The <i>dog</i> &amp; cat.
- A <00:00:03.500>cat.
"""
ASS = """[Script Info]
Title: A film

[V4+ Styles]
Format: Name, Fontname
Style: Default,Arial

[Events]
Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text
Comment: 0,0:00:01.00,0:00:02.00,Default,,0,0,0,,no text
Dialogue: 0,0:00:01.00,0:00:02.00,Default,,0,0,0,,{\\an8}The {\\i1}old{\\i0} dog, it\\Nsees the house.
Dialogue: 0,0:00:02.00,0:00:03.00,Default,,0,0,0,,{\\p1}m 0 0 l 1 1{\\p0}
Dialogue: 0,0:00:03.00,0:00:04.00,Default,,0,0,0,,{\\k20}La {\\k20}la
Dialogue: 0,0:00:04.00,0:00:05.00,Default,,0,0,0,,- A cat.\\N- A dog.
"""
MDX = """---
title: The dog
---
import { Tabs } from './tabs'
export const x = {
  a: 1
}

# The *old* dog {props.name} {/* no */}

<Tabs items={['a', "b"]} onClick={() => { go('}') }}>

The **big** cat <Tabs.Item n={1}>sees it</Tabs.Item> and {list.map((each) => <b>{each}</b>)} more.

</Tabs>

`{code}` and text {name}.

```js
import no from 'x'
<b a={1}>
```

{
  /* a block */
}

<>

Last words

</>
"""
_TOOL = (
    '<?xml version="1.0" encoding="utf-8"?>\n<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"'
    ' xmlns:{0}="{1}"><file source-language="en-US" target-language="de-DE" original="x" datatype="x"><body>\n'
    "{2}</body></file></xliff>\n"
)
SDLXLIFF = _TOOL.format(
    "sdl", "http://sdl.com/FileTypes/SdlXliff/1.0",
    '<trans-unit id="a"><source>The old dog.</source><seg-source><mrk mtype="seg" mid="1">The old dog.</mrk></seg-source>'
    '<target><mrk mtype="seg" mid="1"/></target><sdl:seg-defs><sdl:seg id="1"/></sdl:seg-defs></trans-unit>\n'
    '<trans-unit id="b"><source>The cat</source><seg-source><mrk mtype="seg" mid="2">The cat</mrk></seg-source>'
    '<target><mrk mtype="seg" mid="2">Die Katze</mrk></target><sdl:seg-defs><sdl:seg id="2" conf="Translated"/>'
    "</sdl:seg-defs></trans-unit>\n",
)  # fmt: skip
MQXLIFF = _TOOL.format(
    "mq", "MQXliff",
    '<trans-unit id="1" mq:status="NotStarted"><source xml:space="preserve">The <bpt id="1">{}</bpt>old<ept id="1">{}</ept>'
    ' dog.</source><target xml:space="preserve"></target></trans-unit>\n'
    '<trans-unit id="2" mq:status="ManuallyConfirmed"><source>The cat</source><target>Die Katze</target></trans-unit>\n',
)  # fmt: skip
FODT = """<?xml version="1.0" encoding="UTF-8"?>
<office:document xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0"
 xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" office:mimetype="application/vnd.oasis.opendocument.text">
<office:body><office:text><text:h text:outline-level="1">The title</text:h>
<text:p>The <text:span>old</text:span> dog<text:line-break/>walks.</text:p></office:text></office:body></office:document>
"""
CATALOGUES = {
    "json": JSON, "yaml": YAML, "properties": PROPERTIES, "strings": STRINGS, "xml": ANDROID, "resx": RESX, "vtt": VTT,
    "ass": ASS, "mdx": MDX, "sdlxliff": SDLXLIFF, "mqxliff": MQXLIFF, "fodt": FODT,
}  # fmt: skip

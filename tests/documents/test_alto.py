"""ALTO files of versions 2 to 4, made here."""

import logging

import pytest
from PIL import Image

from broadsheet.documents import InputError, read_alto, read_document

# As Tesseract 5 writes version 3.
VERSION_3 = """<?xml version="1.0" encoding="UTF-8"?>
<alto xmlns="http://www.loc.gov/standards/alto/ns-v3#" xmlns:xlink="http://www.w3.org/1999/xlink"
 xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
 xsi:schemaLocation="http://www.loc.gov/standards/alto/ns-v3# http://www.loc.gov/alto/v3/alto-3-0.xsd">
 <Description>
  <MeasurementUnit>pixel</MeasurementUnit>
  <sourceImageInformation><fileName>scan.png</fileName></sourceImageInformation>
 </Description>
 <Layout>
  <Page WIDTH="200" HEIGHT="300" PHYSICAL_IMG_NR="0" ID="page_0">
   <PrintSpace HPOS="0" VPOS="0" WIDTH="200" HEIGHT="300">
    <ComposedBlock ID="cblock_0" HPOS="10" VPOS="10" WIDTH="140" HEIGHT="50">
     <TextBlock ID="block_0" HPOS="10" VPOS="10" WIDTH="140" HEIGHT="50">
      <Shape><Polygon POINTS="10,10 150,10 150,60 10,60"/></Shape>
      <TextLine ID="line_0" HPOS="10" VPOS="10" WIDTH="140" HEIGHT="20">
       <String ID="string_0" HPOS="10" VPOS="10" WIDTH="50" HEIGHT="20" WC="0.96" CONTENT="Smith&apos;s"/>
       <SP WIDTH="10" VPOS="10" HPOS="60"/>
       <String ID="string_1" HPOS="70" VPOS="12" WIDTH="80" HEIGHT="18" WC="0.91" CONTENT="caf&#233;&amp;"/>
      </TextLine>
      <TextLine ID="line_1" HPOS="10" VPOS="40" WIDTH="20" HEIGHT="20">
       <String ID="string_2" HPOS="10" VPOS="40" WIDTH="20" HEIGHT="20" WC="0.9" CONTENT="no">
        <Glyph ID="g" CONTENT="n" HPOS="10" VPOS="40" WIDTH="9" HEIGHT="20"/>
       </String>
       <String ID="string_3" HPOS="0" VPOS="0" WIDTH="0" HEIGHT="0" CONTENT=""/>
      </TextLine>
     </TextBlock>
    </ComposedBlock>
   </PrintSpace>
  </Page>
 </Layout>
</alto>
"""


def alto(lines, unit="pixel", page='WIDTH="1000" HEIGHT="500"', head=""):
    return (
        f"{head}<alto><Description><MeasurementUnit>{unit}</MeasurementUnit></Description><Layout>\n<Page {page}>"
        f"<PrintSpace><TextBlock>{lines}</TextBlock></PrintSpace></Page></Layout></alto>"
    )


def string(content, x=10.0, y=10.0, width=30.0, height=20.0, more=""):
    return f'<String CONTENT="{content}" HPOS="{x:g}" VPOS="{y:g}" WIDTH="{width:g}" HEIGHT="{height:g}" {more}/>'


def line(*strings, box='HPOS="10" VPOS="10" WIDTH="80" HEIGHT="20"'):
    return f"<TextLine {box}>{''.join(strings)}</TextLine>"


def write(folder, text, name="page.xml"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def warnings(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def prefixed(text):
    """The same file with a prefix on its elements."""
    text = text.replace('xmlns="', 'xmlns:alto="')
    for name in ("alto", "Description", "MeasurementUnit", "Layout", "Page", "PrintSpace", "TextBlock", "TextLine"):
        text = text.replace(f"<{name} ", f"<alto:{name} ").replace(f"<{name}>", f"<alto:{name}>")
        text = text.replace(f"</{name}>", f"</alto:{name}>")
    return text.replace("<String", "<alto:String").replace("</String", "</alto:String")


@pytest.mark.parametrize(
    "text",
    [
        VERSION_3,
        VERSION_3.replace("ns-v3#", "ns-v4#"),
        VERSION_3.replace("ns-v3#", "ns-v2#"),
        VERSION_3.replace('xmlns="http://www.loc.gov/standards/alto/ns-v3#" ', ""),
        prefixed(VERSION_3),
        VERSION_3.replace("<alto ", "<!DOCTYPE alto SYSTEM 'alto.dtd'>\n<ALTO ").replace("</alto", "</ALTO"),
    ],
    ids=["v3", "v4", "v2", "no namespace", "prefix", "document type"],
)
@pytest.mark.parametrize("name", ["page.xml", "page.alto"])
def test_words_boxes_and_lines_of_each_version(tmp_path, caplog, text, name):
    document = read_document(write(tmp_path, text, name))
    assert document.words == ["Smith's", "café&", "no"]
    assert document.boxes == [[10, 10, 60, 30], [70, 12, 150, 30], [10, 40, 30, 60]]
    assert document.segment_ids == [0, 0, 1]
    assert document.page_sizes == [(200, 300)]
    assert document.source == str(tmp_path / name)
    assert warnings(caplog) == []


@pytest.mark.parametrize("unit", ["pixel", "mm10", "inch1200"])
def test_page_and_boxes_keep_the_file_s_unit(tmp_path, unit):
    document = read_alto(write(tmp_path, alto(line(string("a", 10.25, 20.5, 1.5, 2)), unit)))
    assert document.boxes == [[10.25, 20.5, 11.75, 22.5]]
    assert document.page_sizes == [(1000, 500)]


def test_pages_follow_each_other(tmp_path, caplog):
    page = '<Page WIDTH="{0}" HEIGHT="50"><PrintSpace><TextBlock>{1}</TextBlock></PrintSpace></Page>'
    pages = page.format(100, line(string("a"))) + page.format(90, "") + page.format(80, line(string("b")))
    path = write(tmp_path, f"<alto><Layout>{pages}</Layout></alto>")
    document = read_alto(path)
    assert document.words == ["a", "b"]
    assert document.page_ids == [0, 2]
    assert document.page_sizes == [(100, 50), (90, 50), (80, 50)]
    assert document.segment_ids == [0, 1]
    assert warnings(caplog) == [f"{path} has no words on page 2 of 3; if there is text to be seen, run the OCR again."]
    with pytest.raises(InputError, match="has no words on page 2"):
        read_alto(path, on_empty_page="raise")


def test_strings_without_a_line_are_segments_of_their_block(tmp_path):
    text = alto(string("a") + string("b") + "</TextBlock><TextBlock>" + string("c"))
    assert read_alto(write(tmp_path, text)).segment_ids == [0, 0, 1]


@pytest.mark.parametrize(
    ("part", "hyphen", "word", "box"),
    [
        ("confi", '<HYP CONTENT="-" HPOS="40" VPOS="15" WIDTH="5" HEIGHT="2"/>', "confi-", [10, 10, 45, 30]),
        ("confi", '<HYP CONTENT="&#173;"/>', "confi-", [10, 10, 40, 30]),
        ("confi", "<HYP/>", "confi-", [10, 10, 40, 30]),
        ("confi-", '<HYP CONTENT="-"/>', "confi-", [10, 10, 40, 30]),
        ("confi&#173;", '<HYP CONTENT="&#173;"/>', "confi-", [10, 10, 40, 30]),
        ("confi", '<HYP CONTENT="&#172;"/>', "confi¬", [10, 10, 40, 30]),
    ],
)
def test_hyphenated_word_is_two_words_with_its_hyphen(tmp_path, part, hyphen, word, box):
    substitute = 'SUBS_TYPE="HypPart{}" SUBS_CONTENT="confidential"'
    lines = line(string(part, more=substitute.format(1)), hyphen) + line(
        string("dential", 10, 40, more=substitute.format(2))
    )
    document = read_alto(write(tmp_path, alto(lines)))
    assert document.words == [word, "dential"]
    assert document.boxes == [box, [10, 40, 40, 60]]
    assert document.segment_ids == [0, 1]


def test_strings_without_a_position_share_their_line(tmp_path, caplog):
    box = 'HPOS="100" VPOS="10" WIDTH="80" HEIGHT="20"'
    lines = line('<String CONTENT="to"/><SP/><String CONTENT="be"/><String CONTENT="or"/>', box=box)
    path = write(tmp_path, alto(lines))
    document = read_alto(path)
    assert document.boxes == [[100, 10, 120, 30], [130, 10, 150, 30], [160, 10, 180, 30]]
    assert "tells no boxes of their own for 3 words on page 1" in warnings(caplog)[0]


def test_page_without_a_size_is_as_large_as_its_print_space_or_its_words(tmp_path, caplog):
    text = alto(line(string("a")), page='ID="p"')
    space = text.replace("<PrintSpace>", '<PrintSpace HPOS="5" VPOS="5" WIDTH="600" HEIGHT="700">')
    assert read_alto(write(tmp_path, space)).page_sizes == [(605, 705)]
    assert warnings(caplog) == []
    assert read_alto(write(tmp_path, text)).page_sizes == [(40, 30)]
    assert "does not tell the size of page 1" in warnings(caplog)[0]


def test_source_and_size_come_from_the_image_where_it_exists(tmp_path):
    Image.new("L", (400, 600)).save(tmp_path / "scan.png")
    assert read_alto(write(tmp_path, VERSION_3)).source == str(tmp_path / "scan.png")
    document = read_alto(write(tmp_path, VERSION_3.replace('WIDTH="200" HEIGHT="300" PHYS', "PHYS")))
    assert document.page_sizes == [(400, 600)]


def test_latin_1_files_are_read(tmp_path):
    path = tmp_path / "a.xml"
    path.write_bytes(alto(line(string("Größe")), head='<?xml version="1.0" encoding="ISO-8859-1"?>').encode("latin-1"))
    assert read_alto(path).words == ["Größe"]


LAUGHS = """<?xml version="1.0"?>
<!DOCTYPE alto [<!ENTITY lol "lol">
 <!ENTITY lol1 "&lol;&lol;&lol;&lol;&lol;&lol;&lol;&lol;&lol;&lol;">]>
"""
FILE_ENTITY = '<!DOCTYPE alto [<!ENTITY secret SYSTEM "file:///etc/passwd">]>'
A = line(string("a"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (alto(line(string("&lol1;")), head=LAUGHS), r"Line 2 of .*page\.xml declares the entity 'lol'"),
        (alto(line(string("a")), head=FILE_ENTITY), r"Line 1 of .*page\.xml declares the entity 'secret'"),
        ("<PcGts><Page/></PcGts>", r"page\.xml is not an ALTO file \(its root is <PcGts>: a PAGE-XML file\)"),
        ("<note>hello</note>", r"page\.xml is not an ALTO file \(its root is <note>"),
        ("hello", r"page\.xml is broken XML: syntax error in line 1"),
        (alto(A).replace("</TextLine>", ""), r"page\.xml is broken XML: mismatched tag in line 2"),
        (alto(line('<String CONTENT="a & b"/>')), r"page\.xml is broken XML: .*line 2"),
        (alto(A)[:-20], r"page\.xml breaks off in line 2"),
        (alto(A)[:130], r"page\.xml breaks off in line 2"),
        ("<alto><Layout></Layout></alto>", r"page\.xml has no pages"),
        (alto(""), r"page\.xml has no words on any of its 1 page"),
        (alto(line(string(" "))), r"page\.xml has no words on any of its 1 page"),
        (alto(A, unit="furlong"), r"MeasurementUnit of .*page\.xml is 'furlong' \(line 1\).*pixel, mm10, inch1200"),
        (alto(A, page='WIDTH="0" HEIGHT="50"'), r"Page 1 of .* \(line 2\) is 0 wide and 50 high"),
        (alto(A, page='WIDTH="wide" HEIGHT="50"'), "WIDTH of the Page in line 2 of .* is 'wide', not a number"),
        (alto(A, page='WIDTH="12" HEIGHT="9"').replace('HPOS="10"', 'HPOS="50"'), "1 of its 1 words lie outside"),
        (alto(line(string("a", x=float("nan")))), "HPOS of the String in line 2 of .* is 'nan', not a number"),
        (alto(line(string("a", width=-5))), r"The box \(10, 10, 5, 30\) of 'a' in line 2 of .*swapped corners"),
        (alto(line(string("a").replace("CONTENT", "TEXT"))), "String in line 2 of .* has no CONTENT"),
        (alto(line('<String CONTENT="a"/>', box="")), "Line 2 of .* has the text 'a' without a box"),
        (f"<alto><Layout>{A}</Layout></alto>", "String in line 1 of .* stands on no Page"),
        (alto(A, head='<?xml version="1.0" encoding="klingon"?>'), "unknown encoding"),
    ],
)
def test_faulty_files_are_refused_with_a_sentence(tmp_path, text, message):
    with pytest.raises(InputError, match=message) as error:
        read_alto(write(tmp_path, text))
    assert str(error.value).endswith(".")
    assert "\n" not in str(error.value)

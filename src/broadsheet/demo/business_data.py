"""Made-up companies, people, dates, numbers and amounts for the demo's documents."""

from dataclasses import dataclass
from datetime import date
from random import Random


def _words(text: str) -> list[str]:
    return text.split()


def _phrases(text: str) -> list[str]:
    return text.split("|")


_FIRST = _words(
    "Abernathy Alder Amberley Ashford Beacon Bellweather Birchall Blackmoor Bramley Bridgewater Brightwater "
    "Calloway Carrick Castellan Cedarbrook Cobalt Copperfield Corvid Cranfield Crestview Daventry Driftwood Dunmore "
    "Eastgate Elmhurst Emberton Everly Fairbourne Falcon Farrow Fenwick Foxglove Garnet Glenmoor Goldcrest Granite "
    "Greystone Hadley Halyard Harrow Hartwell Havenport Hazelton Holloway Ironbridge Juniper Kestrel Kingsley "
    "Kirkwall Lakeland Langford Larkspur Linden Lockwood Longmeadow Marlowe Meridian Merrow Millbrook Mossvale "
    "Norbury Northwind Oakhurst Orchard Osprey Palisade Pemberton Penrose Pinnacle Quarry Ravenscroft Redwood "
    "Riverton Rosedale Saltmarsh Sandhurst Selwyn Silverline Skylark Stanhope Sterling Stonegate Summit Talbot "
    "Tamarack Thornbury Tidewater Underhill Vanguard Verity Wakefield Westbrook Wexford Whitmore Yarrow"
)
_TRADE = _words(
    "Analytics Bakery Catering Chemicals Components Consulting Controls Design Dynamics Electrical Electronics "
    "Engineering Equipment Farms Fabrics Foods Furniture Glass Graphics Hardware Imports Instruments Interiors Labs "
    "Logistics Machinery Marine Materials Media Medical Metals Optics Packaging Paper Partners Plastics Plumbing "
    "Press Printing Products Robotics Roofing Security Services Software Solutions Supplies Systems Textiles Timber "
    "Tools Trading Transport Ventures Water Works"
)
_SUFFIX = ("Ltd", "Ltd.", "Inc.", "LLC", "GmbH", "B.V.", "plc", "Co.", "& Sons", "Group", "AG", "S.A.", "")
_GIVEN = _words(
    "Aisha Albert Amelia Bruno Carla Chen Daniel Divya Elena Emma Felix Fiona Grace Hannah Hugo Imran Ines Jacob "
    "Julia Kenji Lars Laura Marco Maria Nadia Noah Olga Omar Paul Petra Quentin Rosa Samuel Sofia Tomas Vera Yusuf "
    "Zoe"
)
_FAMILY = _words(
    "Adeyemi Becker Brandt Castro Cooper Dubois Eriksen Fischer Garcia Hansen Haddad Iqbal Jensen Kaur Keller "
    "Kowalski Lindqvist Lopez Mason Meyer Moreau Nakamura Novak Okafor Olsen Patel Pereira Quinn Rossi Sato Schmidt "
    "Silva Singh Tanaka Torres Varga Walker Weber Yilmaz Zhang"
)
_STREET = _words(
    "Station Mill Church Harbour King Queen Park Garden Bridge Market Castle Victoria Orchard Chestnut Maple Canal "
    "Dock Forge Temple Foundry Meadow Hill Lake Spring Tower"
)
_STREET_KIND = ("Road", "Street", "Lane", "Avenue", "Way", "Square", "Drive")
_CITY = _words(
    "Ashbourne Bristol Chester Dublin Exeter Galway Hamburg Utrecht Lyon Porto Malmo Ghent Boston Denver Portland "
    "Austin Oakland Albany Dayton Leeds York Durham Basel Graz Turin Aarhus Bergen Toronto Halifax Cork"
)
_GOODS_KIND = _words(
    "Steel Brass Copper Rubber Ceramic Carbon Nylon Digital Industrial Portable Heavy-duty Compact Standard Premium "
    "Waterproof Foldable Adjustable"
)
_GOODS = _phrases(
    "bracket|valve set|cable, 5 m|desk lamp|office chair|sensor module|filter cartridge|bearing kit|hose coupling|"
    "storage box|label roll|work gloves|pump housing|control unit|freight container|drill bit set|power supply|"
    "switch panel|paint, 10 l|shelf unit|toner cartridge|gasket|conveyor belt|monitor stand|network switch|"
    "safety helmet|printing plates|data recorder"
)
_SERVICE_KIND = _words("Annual Monthly On-site Remote Extended Initial Express")
_SERVICES = _phrases(
    "installation|maintenance visit|training day|licence fee|design review|test report|calibration|consulting hours|"
    "cleaning service|translation|data storage|inspection|repair"
)
SHOP_ITEMS = _phrases(
    "Espresso|Croissant|Orange juice|Bread roll|Olive oil|Notebook A5|Ballpoint pen|Hand soap|"
    "Apples 1 kg|Cheddar|Oat milk|Dark chocolate|Green tea|Batteries AA|Umbrella|Tomato soup|Sandwich|"
    "Mineral water|Muesli|Postcards|Candle|Phone cable|Salted nuts|Lemonade|Rye bread|Butter|Sponges|"
    "Light bulb"
)
_MONTHS = _words("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec")


@dataclass(frozen=True)
class Style:
    """How one company writes dates, amounts and document numbers."""

    date_format: str
    currency: str
    decimals: str  # "point" 1,234.50, "comma" 1.234,50, "plain" 1234.50
    number_format: str

    @classmethod
    def draw(cls, rng: Random) -> "Style":
        """A style at random."""
        return cls(
            date_format=rng.choice(
                (
                    "{d:02}.{m:02}.{y}",
                    "{y}-{m:02}-{d:02}",
                    "{m:02}/{d:02}/{y}",
                    "{d:02}/{m:02}/{y}",
                    "{d:02}-{mon}-{y}",
                    "{d:02}/{mon}/{y}",
                )
            ),
            currency=rng.choice(("", "", "$", "$", "£", "€", "CHF")),
            decimals=rng.choice(("point", "point", "comma", "plain")),
            number_format=rng.choice(
                (
                    "{y}-{n:04}",
                    "{a}{n:05}",
                    "{n:06}",
                    "{a}-{n:05}",
                    "{n:04}/{y}",
                    "{a}{y}{n:04}",
                    "{n:03}-{k:04}",
                    "{n:08}",
                )
            ),
        )

    def date(self, day: date) -> str:
        """The day in the company's way of writing dates."""
        return self.date_format.format(d=day.day, m=day.month, y=day.year, mon=_MONTHS[day.month - 1])

    def amount(self, cents: int, currency: bool = True) -> str:
        """An amount of money, with the currency where the company writes it."""
        whole = f"{abs(cents) / 100:,.2f}"
        if self.decimals == "comma":
            whole = whole.translate(str.maketrans(",.", ".,"))
        elif self.decimals == "plain":
            whole = whole.replace(",", "")
        sign = "-" if cents < 0 else ""
        if not currency or not self.currency:
            return sign + whole
        return sign + self.currency + whole

    def number(self, rng: Random, year: int) -> str:
        """A document number, such as of an invoice or an order; all kinds of documents share the formats."""
        letters = "".join(rng.choice("ABCDEFGHKLMNPRSTW") for _ in range(rng.choice((1, 2, 3))))
        return self.number_format.format(y=year, n=rng.randrange(1, 10**4), k=rng.randrange(10**4), a=letters)


def company(rng: Random) -> str:
    """A company's name, of two to four words."""
    name = f"{rng.choice(_FIRST)} {rng.choice(_TRADE)}"
    if rng.random() < 0.15:
        name = " & ".join(rng.sample(_FIRST, 2))
    return f"{name} {rng.choice(_SUFFIX)}".strip()


def person(rng: Random) -> str:
    """A person's name."""
    return f"{rng.choice(_GIVEN)} {rng.choice(_FAMILY)}"


def address(rng: Random) -> list[str]:
    """Two or three lines: street, town with postal code, and sometimes what stands before the street."""
    street = f"{rng.randrange(1, 240)} {rng.choice(_STREET)} {rng.choice(_STREET_KIND)}"
    code = rng.choice(
        (
            f"{rng.randrange(10000, 99999)}",
            f"{rng.choice('BCELMNSW')}{rng.randrange(1, 20)} "
            f"{rng.randrange(1, 10)}{rng.choice('ABDEFG')}{rng.choice('HJLNPQ')}",
        )
    )
    town = f"{rng.choice(_CITY)} {code}" if rng.random() < 0.5 else f"{code} {rng.choice(_CITY)}"
    extra = [
        rng.choice(
            (
                f"Unit {rng.randrange(1, 40)}",
                f"Suite {rng.randrange(100, 900)}",
                f"Floor {rng.randrange(1, 12)}",
                "Accounts Department",
            )
        )
    ]
    return (extra if rng.random() < 0.25 else []) + [street, town]


def contact(rng: Random, name: str) -> list[str]:
    """Telephone and e-mail or web address of a company."""
    domain = "".join(letter for letter in name.split()[0].lower() if letter.isalpha())
    digits = f"{rng.randrange(1, 60)} {rng.randrange(10, 999)} {rng.randrange(10**5, 10**7)}"
    phone = f"{rng.choice(('Tel.', 'Phone', 'T'))} +{digits}"
    mail = rng.choice((f"accounts@{domain}.example", f"www.{domain}.example", f"office@{domain}.example"))
    return [phone, mail]


def bank_details(rng: Random) -> list[str]:
    """Lines that tell where to pay to."""
    groups = " ".join(f"{rng.randrange(10**4):04}" for _ in range(4))
    return [
        f"Bank: {rng.choice(_CITY)} Savings Bank",
        f"IBAN {rng.choice(('DE', 'NL', 'GB', 'FR'))}{rng.randrange(10, 99)} {groups}",
        f"BIC {rng.choice('ABCDEFG')}XPL{rng.randrange(10, 99)}",
    ]


def item(rng: Random) -> str:
    """What is sold, goods or a service: two or more words."""
    if rng.random() < 0.7:
        return f"{rng.choice(_GOODS_KIND)} {rng.choice(_GOODS)}"
    return f"{rng.choice(_SERVICE_KIND)} {rng.choice(_SERVICES)}"

"""Tables of a page of docs, kept between its <!-- NAME --> and <!-- end --> lines."""


def write_tables(page, tables):
    """Puts the lines that tables[NAME]() returns behind each <!-- NAME --> of the page."""
    out, skipping = [], False
    for line in page.read_text().splitlines():
        name = line.removeprefix("<!-- ").removesuffix(" -->")
        if line.startswith("<!-- ") and name in tables:
            out += [line] + tables[name]()
            skipping = True
        elif line == "<!-- end -->":
            skipping = False
        if not skipping:
            out.append(line)
    page.write_text("\n".join(out) + "\n")

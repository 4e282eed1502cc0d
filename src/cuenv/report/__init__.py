"""Reports with pictures: each picture is data that becomes SVG text, and the same data as a table."""

"""The text that the vocabularies of the fixtures are trained on: three licenses, as the package base-files of Debian and Ubuntu installs
them. They are other people's texts: they are read where they are, and nothing here keeps them."""
import hashlib, tempfile
LICENSES = ("Apache-2.0", "GPL-3", "Artistic")
SHA256 = "bc6da95191fc2eecb5daf5b874873da564a96fe43589bff96e76261ac76d1b8d"


def text():
    whole = "".join(open("/usr/share/common-licenses/" + name, encoding="utf8").read() + "\n" for name in LICENSES)
    found = hashlib.sha256(whole.encode()).hexdigest()
    assert found == SHA256, f"the licenses in /usr/share/common-licenses are others than the fixtures were trained on: SHA-256 {found}"
    return whole


def file():
    """The path of a temporary file with the text."""
    with tempfile.NamedTemporaryFile("w", encoding="utf8", suffix=".txt", delete=False) as out:
        out.write(text())
    return out.name

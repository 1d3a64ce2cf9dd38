package job

import (
	"strconv"
	"strings"

	"github.com/purecuda/purecuda/internal/cleantext"
)

// Printable returns name unchanged when it can be shown on one line of a terminal and kept in JSON,
// and quoted in Go's syntax when it cannot. Control characters, line ends and invalid UTF-8 are
// quoted. No file name is ever altered silently.
func Printable(name string) string {
	if cleantext.String(name) == name {
		return name
	}
	return strconv.Quote(name)
}

var listEscapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`)

// escapeListName escapes a name for one line of the digest list, the way sha256sum does it. A name
// with a backslash, line feed or carriage return has those written as \\, \n and \r. The whole line
// then begins with a backslash, which is the returned prefix. All other bytes are kept.
func escapeListName(name string) (prefix, escaped string) {
	if !strings.ContainsAny(name, "\\\n\r") {
		return "", name
	}
	return `\`, listEscapes.Replace(name)
}

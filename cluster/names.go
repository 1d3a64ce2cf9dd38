package cluster

import (
	"strconv"
	"strings"

	"github.com/purecuda/purecuda/driver"
)

// names are the subjects and streams of a cluster. One server can have several, with different names.
//
//	NAME.v1.work.FUNCTION.CALLER.CALL.PIECE  a piece in the queue, in the stream NAME_v1_work
//	NAME.v1.result.FUNCTION.HOST.CALLER.CALL.PIECE.TRY
//	                                      a result or a failure, in the stream NAME_v1_result; TRY is "ok" for a result
//	NAME.v1.host.HOST.SERVE                  a piece for one host
//	NAME.v1.begin.FUNCTION.HOST.CALLER.CALL.PIECE
//	                                      a host tells that it begins a piece again, or has no room
//	NAME.v1.health.HOST.SERVE                a host tells how it is
//	NAME.v1.ask                              all hosts are asked how they are
//	NAME.v1.cancel                           a caller tells that a call has ended
//
// HOST is the name of the host, and SERVE its call of Serve. Who a host is stands in subjects only, because the server enforces the rights
// to these: see HostPermissions.
type names string

const defaultName = "purecuda"

// protocol is the version of the messages. Hosts and callers of different ones do not hear each other.
const protocol = "v1"

func (n names) workStream() string   { return string(n) + "_" + protocol + "_work" }
func (n names) resultStream() string { return string(n) + "_" + protocol + "_result" }
func (n names) bucket() string       { return string(n) + "_" + protocol + "_data" }

func (n names) subject(tokens ...string) string {
	return string(n) + "." + protocol + "." + strings.Join(tokens, ".")
}

func (n names) ask() string    { return n.subject("ask") }
func (n names) cancel() string { return n.subject("cancel") }

// checkToken tells whether a name can be part of a subject, and name a stream.
func checkToken(what, name string) error {
	good := name != "" && len(name) <= 128
	for _, r := range name {
		good = good && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
	}
	if !good {
		return driver.Errorf(driver.ErrInvalidArgument, "the %s %.40q: want 1 to 128 letters, digits, - and _", what, name)
	}
	return nil
}

// tokenOf makes part of a subject of any name.
func tokenOf(name string) string {
	name = name[:min(len(name), 100)]
	return strings.Map(func(r rune) rune {
		if checkToken("", string(r)) != nil {
			return '-'
		}
		return r
	}, name)
}

// functionToken is the name of a function as part of a subject.
func functionToken(name string) (string, error) {
	for part := range strings.SplitSeq(name, "/") {
		if checkToken("", part) != nil {
			return "", driver.Errorf(driver.ErrInvalidArgument, "the function %.40q: a cluster takes names of letters, digits, - and _, with parts between /", name)
		}
	}
	return strings.ReplaceAll(name, "/", "="), nil
}

// pieceID is CALLER.CALL.PIECE.
func pieceID(call string, number int) string { return call + "." + strconv.Itoa(number) }

// hostOf is the name of the host HOST.SERVE.
func hostOf(id string) string {
	name, _ := splitLast(id)
	return name
}

// splitLast cuts the last token off.
func splitLast(subject string) (before, last string) {
	i := strings.LastIndexByte(subject, '.')
	if i < 0 {
		return "", subject
	}
	return subject[:i], subject[i+1:]
}

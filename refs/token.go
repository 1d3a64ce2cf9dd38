package refs

import (
	"encoding/hex"
	"net/url"
	"strconv"
	"strings"

	"github.com/purecuda/purecuda/driver"
)

// Token is a name of a Ref that can be written down and sent: [Resolve] finds the Ref by it,
// as long as that is open, in the process that made it. Whoever has the token can get at the
// memory, since Secret cannot be guessed: it does not belong into logs.
type Token struct {
	Node       string // where the process runs; for people
	Device     int
	Buffer     uint64 // number of the allocation in the process
	Generation uint64
	Process    [16]byte // another one for every Resolver
	Secret     [16]byte // another one for every token
}

const (
	tokenScheme  = "pcref1" // the 1 is for what follows
	tokenFields  = 7
	maxNodeBytes = 255
)

// String is the form that [ParseToken] reads: seven fields with colons between them.
func (t Token) String() string {
	return strings.Join([]string{
		tokenScheme, url.QueryEscape(t.Node), strconv.Itoa(t.Device), strconv.FormatUint(t.Buffer, 10),
		strconv.FormatUint(t.Generation, 10), hex.EncodeToString(t.Process[:]), hex.EncodeToString(t.Secret[:]),
	}, ":")
}

// MarshalText is String, for encoding/json and its kin.
func (t Token) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText is [ParseToken].
func (t *Token) UnmarshalText(text []byte) error {
	parsed, err := ParseToken(string(text))
	if err == nil {
		*t = parsed
	}
	return err
}

// ParseToken reads what [Token.String] writes, and nothing else: two texts never mean
// the same token. The error is of kind driver.ErrInvalidArgument.
func ParseToken(text string) (Token, error) {
	// The longest text has a node of which every byte is escaped.
	if len(text) > 3*maxNodeBytes+256 {
		return Token{}, driver.Errorf(driver.ErrInvalidArgument, "a token of %d bytes: none is that long", len(text))
	}
	bad := func(what string) (Token, error) {
		return Token{}, driver.Errorf(driver.ErrInvalidArgument, "no token: %s", what)
	}
	f := strings.Split(text, ":")
	if len(f) != tokenFields || f[0] != tokenScheme {
		return bad("want " + tokenScheme + ":node:device:buffer:generation:process:secret")
	}
	var t Token
	var err error
	if t.Node, err = url.QueryUnescape(f[1]); err != nil || len(t.Node) > maxNodeBytes {
		return bad("the node cannot be read")
	}
	if t.Device, err = strconv.Atoi(f[2]); err != nil || t.Device < 0 {
		return bad("the device is no number")
	}
	if t.Buffer, err = strconv.ParseUint(f[3], 10, 64); err != nil {
		return bad("the buffer is no number")
	}
	if t.Generation, err = strconv.ParseUint(f[4], 10, 64); err != nil {
		return bad("the generation is no number")
	}
	if !parseHex(&t.Process, f[5]) {
		return bad("the process is not 32 hexadecimal digits")
	}
	if !parseHex(&t.Secret, f[6]) {
		return bad("the secret is not 32 hexadecimal digits")
	}
	if t.String() != text { // signs, leading zeros, capital letters
		return bad("it is not written as tokens are")
	}
	return t, nil
}

func parseHex(to *[16]byte, text string) bool {
	if len(text) != hex.EncodedLen(len(to)) {
		return false
	}
	_, err := hex.Decode(to[:], []byte(text))
	return err == nil
}

package drivertest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/purecuda/purecuda/driver"
)

// Limits of a kernel in bytes.
const (
	maxStaticShared = 48 << 10
	maxParams       = 32764
)

// image is what the driver takes from PTX: the signatures of its kernels and its
// variables. The bodies are skipped, kernels run as Go functions.
type image struct {
	version   int // of PTX, 10*major + minor
	target    int // sm_XX
	entries   []*entry
	variables []*variable
}

// entry is a kernel.
type entry struct {
	name        string
	params      []param
	paramBytes  uint64
	maxThreads  int    // .maxntid or .reqntid, or the device's limit
	reqBlock    [3]int // .reqntid, or zero
	staticBytes int    // of shared memory
}

// param is a parameter of a kernel in the argument block.
type param struct{ offset, bytes uint64 }

// variable is a variable of the module in device memory.
type variable struct {
	name  string
	bytes uint64
	init  []byte // the rest is zero
}

// ptxVersions are the newest PTX versions that CUDA versions read, as 10*major +
// minor. A version that is not listed reads what the one before reads.
var ptxVersions = []struct {
	cuda driver.Version
	ptx  int
}{
	{9000, 60}, {9010, 61}, {9020, 62}, {10000, 63}, {10010, 64}, {10020, 65},
	{11000, 70}, {11010, 71}, {11020, 72}, {11030, 73}, {11040, 74}, {11050, 75}, {11060, 76}, {11070, 77}, {11080, 78},
	{12000, 80}, {12010, 81}, {12020, 82}, {12030, 83}, {12040, 84}, {12050, 85}, {12070, 86}, {12080, 87}, {12090, 88},
	{13000, 90}, {13010, 91},
}

// newestPTX returns the newest PTX version that a driver reads.
func newestPTX(v driver.Version) int {
	newest := ptxVersions[0].ptx
	for _, known := range ptxVersions {
		if known.cuda <= v {
			newest = known.ptx
		}
	}
	return newest
}

// imageError is why an image cannot be loaded, with the log of the driver's
// compiler in its own words.
type imageError struct {
	result driver.Result
	log    string
}

// unknownFormat is what the driver says of data that is no image.
const unknownFormat = "error   : Binary format for key='0', ident='' is not recognized"

// readImage reads PTX text. major and minor are the capability of the device.
func readImage(data []byte, version driver.Version, major, minor int) (*image, *imageError) {
	text, _, _ := bytes.Cut(data, []byte{0})
	if isBinary(data) || len(bytes.TrimSpace(text)) == 0 {
		return nil, &imageError{result: driver.ErrorInvalidImage}
	}
	s := &scanner{}
	err := s.split(string(text))
	if len(s.tokens) == 0 || s.tokens[0].text != ".version" {
		return nil, &imageError{driver.ErrorInvalidImage, unknownFormat}
	}
	if err != nil {
		return nil, err
	}
	return s.image(version, major, minor)
}

// isBinary tells cubins and fatbins.
func isBinary(data []byte) bool {
	return bytes.HasPrefix(data, []byte("\x7fELF")) || bytes.HasPrefix(data, []byte{0x50, 0xed, 0x55, 0xba})
}

// fatal makes an error at a line.
func fatal(r driver.Result, line int, format string, args ...any) *imageError {
	return &imageError{r, fmt.Sprintf("ptxas application ptx input, line %d; fatal   : %s", line, fmt.Sprintf(format, args...))}
}

// parsing makes an error of the text at a line.
func parsing(line int, near string) *imageError {
	e := fatal(driver.ErrorInvalidPTX, line, "Parsing error near '%s': syntax error", near)
	e.log += "\nptxas fatal   : Ptx assembly aborted due to errors"
	return e
}

// token is a word, a string or a punctuation mark of PTX.
type token struct {
	text string
	line int
}

// scanner reads the outline of PTX text.
type scanner struct {
	tokens []token
	at     int
	ended  bool // next was called behind the last token
	shared int  // bytes of module-scope shared memory
}

const wordBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$.%"

func (s *scanner) split(text string) *imageError {
	line := 1
	for i := 0; i < len(text); {
		rest := text[i:]
		switch ch := text[i]; {
		case ch == '\n':
			line++
			i++
		case ch == ' ' || ch == '\t' || ch == '\r' || ch == '\f' || ch == '\v':
			i++
		case strings.HasPrefix(rest, "//"):
			n := strings.IndexByte(rest, '\n')
			if n < 0 {
				n = len(rest)
			}
			i += n
		case strings.HasPrefix(rest, "/*"):
			n := strings.Index(rest, "*/")
			if n < 0 {
				return parsing(line, "/*")
			}
			line += strings.Count(rest[:n], "\n")
			i += n + 2
		case ch == '"':
			n := strings.IndexAny(rest[1:], "\"\n")
			if n < 0 || rest[1+n] == '\n' {
				return parsing(line, "\"")
			}
			s.tokens = append(s.tokens, token{rest[:n+2], line})
			i += n + 2
		case strings.IndexByte(wordBytes, ch) >= 0:
			n := 1
			for n < len(rest) && strings.IndexByte(wordBytes, rest[n]) >= 0 {
				n++
			}
			s.tokens = append(s.tokens, token{rest[:n], line})
			i += n
		case strings.IndexByte("{}()[]<>,;:=+-*/!~&|^?@#'\\", ch) >= 0:
			s.tokens = append(s.tokens, token{rest[:1], line})
			i++
		default:
			return parsing(line, string(rune(ch)))
		}
	}
	return nil
}

func (s *scanner) peek() string {
	if s.at < len(s.tokens) {
		return s.tokens[s.at].text
	}
	return ""
}

func (s *scanner) next() string {
	if s.at == len(s.tokens) {
		s.ended = true
		return ""
	}
	s.at++
	return s.tokens[s.at-1].text
}

// line is that of the token that was read last.
func (s *scanner) line() int {
	if len(s.tokens) == 0 {
		return 1
	}
	return s.tokens[min(max(s.at-1, 0), len(s.tokens)-1)].line
}

// syntax makes an error at the token that was read last.
func (s *scanner) syntax() *imageError {
	near := ""
	if s.at > 0 && !s.ended {
		near = s.tokens[s.at-1].text
	}
	return parsing(s.line(), near)
}

func (s *scanner) image(version driver.Version, major, minor int) (*image, *imageError) {
	img := &image{}
	hasTarget := false
	for s.at < len(s.tokens) {
		var err *imageError
		switch word := s.next(); word {
		case ".version":
			err = s.version(img, version)
		case ".target":
			hasTarget = true
			err = s.target(img, major, minor)
		case ".address_size":
			s.next()
		case ".visible", ".weak", ".extern", ".common", ";":
		case ".entry":
			if !hasTarget {
				return nil, fatal(driver.ErrorInvalidPTX, s.line(), "Missing .target directive")
			}
			err = s.entry(img)
		case ".func":
			err = s.function()
		case ".global", ".const", ".shared":
			err = s.variable(img, word, s.at >= 2 && s.tokens[s.at-2].text == ".extern")
		case ".file", ".loc", ".section", ".pragma", ".alias", ".tex", ".texref", ".samplerref", ".surfref":
			s.skipDirective()
		default:
			err = s.syntax()
		}
		if err != nil {
			return nil, err
		}
	}
	if !hasTarget {
		return nil, fatal(driver.ErrorInvalidPTX, s.line(), "Missing .target directive")
	}
	for _, e := range img.entries {
		e.staticBytes += s.shared
		if e.staticBytes > maxStaticShared {
			return nil, &imageError{driver.ErrorInvalidPTX, fmt.Sprintf(
				"ptxas error   : Entry function '%s' uses too much shared data (%#x bytes, %#x max)", e.name, e.staticBytes, maxStaticShared)}
		}
	}
	return img, nil
}

func (s *scanner) version(img *image, version driver.Version) *imageError {
	number := s.next()
	major, minor, ok := strings.Cut(number, ".")
	x, err1 := strconv.Atoi(major)
	y, err2 := strconv.Atoi(minor)
	if !ok || err1 != nil || err2 != nil || y > 9 {
		return s.syntax()
	}
	img.version = 10*x + y
	if newest := newestPTX(version); img.version > newest {
		return fatal(driver.ErrorUnsupportedPTXVersion, s.line(), "Unsupported .version %s; current version is '%d.%d'", number, newest/10, newest%10)
	}
	return nil
}

// target checks .target sm_90, sm_90a (this device only) or sm_100f (this major
// version only).
func (s *scanner) target(img *image, major, minor int) *imageError {
	for {
		word := s.next()
		if number, ok := strings.CutPrefix(word, "sm_"); ok {
			digits := strings.TrimRight(number, "af")
			sm, err := strconv.Atoi(digits)
			if err != nil {
				return s.syntax()
			}
			img.target = sm
			have := 10*major + minor
			fits := have >= sm
			switch strings.TrimPrefix(number, digits) {
			case "a":
				fits = have == sm
			case "f":
				fits = have >= sm && major == sm/10
			}
			if !fits {
				return &imageError{driver.ErrorInvalidPTX, "ptxas fatal   : SM version specified by .target is higher than default SM version assumed"}
			}
		} else if word == "" || strings.HasPrefix(word, ".") {
			return s.syntax()
		}
		if s.peek() != "," {
			return nil
		}
		s.next()
	}
}

// typeBytes returns the size of a type such as .u64, and 0 if it is none.
func typeBytes(word string) uint64 {
	if len(word) < 3 || word[0] != '.' || strings.IndexByte("busf", word[1]) < 0 {
		return 0
	}
	bits, err := strconv.ParseUint(word[2:], 10, 16)
	if err != nil || !slices.Contains([]uint64{8, 16, 32, 64, 128}, bits) {
		return 0
	}
	return bits / 8
}

// declaration is ".align 8 .b8 name[4][8]" in any state space.
type declaration struct {
	name        string
	bytes       uint64
	align, each uint64
	open        bool // name[]
	brackets    bool // it is an array
}

func (s *scanner) declaration() (d declaration, err *imageError) {
	vector := uint64(1)
	for {
		word := s.next()
		switch {
		case word == ".align":
			d.align, _ = strconv.ParseUint(s.next(), 10, 32)
			if d.align == 0 || d.align&(d.align-1) != 0 {
				return d, s.syntax()
			}
		case word == ".ptr", word == ".global", word == ".const", word == ".shared", word == ".local", word == ".attribute":
		case word == "(": // of .attribute
			for s.peek() != ")" && s.peek() != "" {
				s.next()
			}
			s.next()
		case word == ".v2", word == ".v4":
			vector = uint64(word[2] - '0')
		case typeBytes(word) != 0:
			if d.each != 0 {
				return d, s.syntax()
			}
			d.each = typeBytes(word)
		case word != "" && word[0] != '.' && strings.IndexByte(wordBytes, word[0]) >= 0:
			if d.each == 0 {
				return d, s.syntax()
			}
			d.name, d.bytes = word, d.each*vector
			d.align = max(d.align, 1)
			if d.align == 1 {
				d.align = d.bytes
			}
			return d, s.dimensions(&d)
		default:
			return d, s.syntax()
		}
	}
}

func (s *scanner) dimensions(d *declaration) *imageError {
	for s.peek() == "[" {
		s.next()
		d.brackets = true
		word := s.next()
		if word == "]" {
			d.open = true
			continue
		}
		n, err := strconv.ParseUint(word, 0, 40)
		if err != nil || s.next() != "]" || n == 0 || d.bytes > 1<<40/n {
			return s.syntax()
		}
		d.bytes *= n
	}
	return nil
}

func (s *scanner) entry(img *image) *imageError {
	e := &entry{name: s.next(), maxThreads: maxThreadsPerBlock}
	if e.name == "" || strings.IndexByte("{}();,.", e.name[0]) >= 0 {
		return s.syntax()
	}
	if s.peek() == "(" {
		s.next()
		for s.peek() != ")" {
			if s.next() != ".param" {
				return s.syntax()
			}
			d, err := s.declaration()
			if err != nil {
				return err
			}
			offset := (e.paramBytes + d.align - 1) / d.align * d.align
			e.params = append(e.params, param{offset, d.bytes})
			e.paramBytes = offset + d.bytes
			if s.peek() == "," {
				s.next()
			} else if s.peek() != ")" {
				s.next()
				return s.syntax()
			}
		}
		s.next()
	}
	if e.paramBytes > maxParams {
		return fatal(driver.ErrorInvalidPTX, s.line(), "Formal parameter space overflowed in function %s", e.name)
	}
	for s.peek() != "{" {
		switch word := s.next(); word {
		case ".maxntid", ".reqntid":
			dims := [3]int{1, 1, 1}
			for i := 0; i < 3; i++ {
				n, err := strconv.Atoi(s.next())
				if err != nil || n < 1 || n > maxThreadsPerBlock {
					return s.syntax()
				}
				dims[i] = n
				if s.peek() != "," {
					break
				}
				s.next()
			}
			e.maxThreads = dims[0] * dims[1] * dims[2]
			if word == ".reqntid" {
				e.reqBlock = dims
			}
		case "", ";", "}":
			return s.syntax()
		}
	}
	shared, err := s.body()
	e.staticBytes = shared
	img.entries = append(img.entries, e)
	return err
}

// body skips a body in braces and adds up its shared memory.
func (s *scanner) body() (shared int, err *imageError) {
	depth := 0
	for {
		switch s.next() {
		case "{":
			depth++
		case "}":
			if depth--; depth == 0 {
				return shared, nil
			}
		case ".shared":
			if s.tokens[max(s.at-2, 0)].text == ".extern" {
				continue
			}
			d, err := s.declaration()
			if err != nil {
				return 0, err
			}
			shared = addShared(shared, d)
		case "":
			return 0, s.syntax()
		}
	}
}

// addShared puts a declaration behind shared memory. It stops counting far beyond
// what is allowed.
func addShared(shared int, d declaration) int {
	align := int(min(d.align, 1<<20))
	return min((shared+align-1)/align*align+int(min(d.bytes, 1<<30)), 1<<30)
}

// function skips a .func: its header up to the body, or up to the semicolon of a
// declaration.
func (s *scanner) function() *imageError {
	for {
		switch s.peek() {
		case "{":
			shared, err := s.body()
			s.shared += shared
			return err
		case ";":
			return nil
		case "":
			return s.syntax()
		}
		s.next()
	}
}

// skipDirective skips to the end of the line, or of the block that begins on it.
func (s *scanner) skipDirective() {
	line := s.tokens[s.at-1].line
	for s.at < len(s.tokens) && s.tokens[s.at].line == line {
		if s.peek() == "{" {
			for s.peek() != "}" && s.peek() != "" {
				s.next()
			}
		}
		s.next()
	}
	if s.peek() == "{" {
		for s.peek() != "}" && s.peek() != "" {
			s.next()
		}
		s.next()
	}
}

func (s *scanner) variable(img *image, space string, external bool) *imageError {
	d, err := s.declaration()
	if err != nil {
		return err
	}
	if space == ".shared" {
		if !external && !d.open {
			s.shared = addShared(s.shared, d)
		}
		return s.semicolon()
	}
	v := &variable{name: d.name, bytes: d.bytes}
	if s.peek() == "=" {
		s.next()
		if v.init, err = s.values(d.each); err != nil {
			return err
		}
		if d.open {
			v.bytes = uint64(len(v.init))
		}
		if uint64(len(v.init)) > v.bytes {
			return s.syntax()
		}
	}
	if v.bytes == 0 || external {
		return s.semicolon()
	}
	img.variables = append(img.variables, v)
	return s.semicolon()
}

func (s *scanner) semicolon() *imageError {
	if s.next() != ";" {
		return s.syntax()
	}
	return nil
}

// values reads an initialiser of numbers of a size each: one, or a list in braces,
// which may be nested.
func (s *scanner) values(each uint64) (data []byte, err *imageError) {
	depth := 0
	for {
		switch word := s.next(); word {
		case "{":
			depth++
		case "}":
			depth--
		case ",":
		case "":
			return nil, s.syntax()
		case "-":
			bits, ok := number(s.next(), each)
			if !ok {
				return nil, s.syntax()
			}
			data = appendWord(data, -bits, each)
		default:
			bits, ok := number(word, each)
			if !ok {
				return nil, fatal(driver.ErrorNotSupported, s.line(), "the simulated driver reads numbers as initial values, not %q", word)
			}
			data = appendWord(data, bits, each)
		}
		if depth <= 0 {
			return data, nil
		}
	}
}

// number reads an integer, 0f3F800000, 0d3FF0000000000000 or a decimal float.
func number(word string, each uint64) (bits uint64, ok bool) {
	lower := strings.ToLower(word)
	if strings.HasPrefix(lower, "0f") && len(lower) == 10 || strings.HasPrefix(lower, "0d") && len(lower) == 18 {
		bits, err := strconv.ParseUint(lower[2:], 16, 64)
		return bits, err == nil
	}
	if bits, err := strconv.ParseUint(strings.TrimSuffix(lower, "u"), 0, 64); err == nil {
		return bits, true
	}
	f, err := strconv.ParseFloat(lower, 64)
	if each == 4 {
		return uint64(math.Float32bits(float32(f))), err == nil
	}
	return math.Float64bits(f), err == nil
}

func appendWord(data []byte, bits, each uint64) []byte {
	var word [16]byte
	binary.LittleEndian.PutUint64(word[:], bits)
	return append(data, word[:min(each, 16)]...)
}

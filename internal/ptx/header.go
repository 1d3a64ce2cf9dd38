package ptx

// Header is what stands before the first symbol of a module. A driver looks at it
// before it reads on: what follows may be in a PTX that it does not know.
type Header struct {
	Version       Version
	VersionLine   int // 0 if the source does not begin with .version
	Target        string
	TargetOptions []string
	TargetLine    int // 0 if there is no .target
}

// ParseHeader reads the directives before the first symbol. The error is a
// *SyntaxError; what was read before it is in the header.
func ParseHeader(src []byte) (Header, error) {
	p := newParser(src)
	h := Header{}
	for more := p.isDot("version"); more && p.err == nil; {
		line := p.tok.line
		switch {
		case p.debugDirective():
		case p.acceptDot("version"):
			h.VersionLine = line
			p.version()
		case p.acceptDot("target"):
			h.TargetLine = line
			p.target()
		case p.acceptDot("address_size"):
			p.uint32("address size")
		default:
			more = false
		}
	}
	h.Version, h.Target, h.TargetOptions = p.m.Version, p.m.Target, p.m.TargetOptions
	return h, p.err
}

package nvrtc

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"slices"
	"strings"

	"github.com/purecuda/purecuda/internal/artifact"
)

// keyFormat changes with the meaning of a key and with what Artifact.encode writes.
const keyFormat = "purecuda nvrtc 1"

// digest collects texts so that no two lists of them collect to the same.
type digest struct{ hash.Hash }

func (d digest) add(texts ...string) {
	d.Write(binary.AppendUvarint(nil, uint64(len(texts))))
	for _, text := range texts {
		d.Write(binary.AppendUvarint(nil, uint64(len(text))))
		d.Write([]byte(text))
	}
}

// key is the digest of everything that a compile depends on: NVRTC, target, options, name
// expressions, source, headers in memory, and the content of all files that may be
// included. why says why there is none: then the compile depends on what is not known.
func key(p Program, t Target, known *facts) (key artifact.Key, why string) {
	for _, option := range p.Extra {
		if readsFiles(option) {
			return key, "the option " + option + " makes NVRTC read files"
		}
	}
	d := digest{sha256.New()}
	d.add(keyFormat, known.Version.String(), known.Build, t.Kind.String())
	d.add(append(t.options(), p.list(known.Version)...)...)
	d.add(p.nameExpressions()...)
	d.add(p.name(), p.Source)
	for _, h := range p.headers() {
		d.add(h.Name, h.Text)
	}
	if why := addFiles(d, p); why != "" {
		return key, why
	}
	d.Sum(key[:0])
	return key, ""
}

// readsFiles reports whether an option in NVRTC's words names a file or a directory that
// takes part in the compile, or one that the compile writes.
func readsFiles(option string) bool {
	option = "-" + strings.TrimLeft(option, "-")
	return slices.ContainsFunc([]string{
		"-I", "-include", // and -include-path
		"-pre-include", "-isystem", "-system-include",
		"-pch", "-create-pch", "-use-pch",
		"-optf", "-options-file",
		"-time", "-fdevice-time-trace",
	}, func(prefix string) bool { return strings.HasPrefix(option, prefix) })
}

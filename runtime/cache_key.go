package runtime

import (
	"crypto/sha256"
	"fmt"

	"github.com/purecuda/purecuda/nvrtc"
)

// moduleKey is a digest of what a module is made of. A cache belongs to one context. So the device,
// its architecture, and the versions of the driver and of NVRTC are the same for all its keys. A
// context that was rebuilt begins with an empty one.
type moduleKey [sha256.Size]byte

// imagesKey is the key of a choice of images.
func imagesKey(images []Image) (key moduleKey) {
	h := sha256.New()
	fmt.Fprintf(h, "images %d\n", len(images))
	for _, i := range images {
		fmt.Fprintf(h, "%d %d\n", i.Arch, len(i.Code))
		h.Write(i.Code)
	}
	h.Sum(key[:0])
	return key
}

// programKey is the key of a program that depends on nothing but itself. Go's syntax keeps
// apart what differs in any byte, has maps in order, and forgets no field.
func programKey(p nvrtc.Program) (key moduleKey) {
	h := sha256.New()
	fmt.Fprintf(h, "program %#v", p)
	h.Sum(key[:0])
	return key
}

// codeKey is the key of a program that depends on files: the key of what it was compiled to.
func codeKey(c compiled) (key moduleKey) {
	h := sha256.New()
	fmt.Fprintf(h, "code %#v %d %d\n", c.image.LoweredNames, len(c.signatures), len(c.image.Code))
	h.Write(c.signatures)
	h.Write(c.image.Code)
	h.Sum(key[:0])
	return key
}

// standsAlone reports whether a program depends on nothing but itself: no file takes part. NVRTC
// before 11.8 may read the current directory.
func standsAlone(p nvrtc.Program, c *nvrtc.Compiler) bool {
	return len(p.IncludePaths) == 0 && len(p.Extra) == 0 && c.Version() >= 11080
}

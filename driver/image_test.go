package driver

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
)

// elf makes a 64-bit ELF file with one section of the given bytes.
func elf(section []byte) []byte {
	image := make([]byte, 64)
	copy(image, "\x7fELF\x02\x01\x01")
	at := len(image)
	image = append(image, section...)
	header := make([]byte, 64)
	binary.LittleEndian.PutUint32(header[4:], 1) // SHT_PROGBITS
	binary.LittleEndian.PutUint64(header[0x18:], uint64(at))
	binary.LittleEndian.PutUint64(header[0x20:], uint64(len(section)))
	binary.LittleEndian.PutUint64(image[0x28:], uint64(len(image)))
	binary.LittleEndian.PutUint16(image[0x3a:], 64)
	binary.LittleEndian.PutUint16(image[0x3c:], 1)
	return append(image, header...)
}

func fatbin(body int) []byte {
	image := make([]byte, 16+body)
	copy(image, fatbinMagic)
	binary.LittleEndian.PutUint16(image[6:], 16)
	binary.LittleEndian.PutUint64(image[8:], uint64(body))
	return image
}

func TestImageForC(t *testing.T) {
	cubin, fat := elf([]byte("machine code")), fatbin(100)
	for _, c := range []struct {
		name  string
		image []byte
		want  []byte
		ok    bool
	}{
		{"ptx", []byte(".version 6.4"), []byte(".version 6.4\x00"), true},
		{"ptx with NUL", []byte(".version 6.4\x00"), []byte(".version 6.4\x00"), true},
		{"ptx with more behind the NUL", []byte(".version 6.4\x00junk"), []byte(".version 6.4\x00"), true},
		{"nothing", nil, nil, false},
		{"only NUL", []byte{0}, nil, false},
		{"only space", []byte(" \n"), nil, false},
		{"cubin", cubin, cubin, true},
		{"cubin cut off", cubin[:len(cubin)-1], nil, false},
		{"cubin, header only", cubin[:64], nil, false},
		{"cubin, magic only", cubin[:4], nil, false},
		{"fatbin", fat, fat, true},
		{"fatbin cut off", fat[:len(fat)-1], nil, false},
		{"fatbin, magic only", fat[:4], nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := imageForC(c.image)
			assert.Equal(t, c.ok, ok)
			if ok {
				assert.Equal(t, c.want, got)
			}
		})
	}
}

func TestImageForCLeavesTheCallersBytes(t *testing.T) {
	image := []byte(".version 6.4 and more")
	part := image[:12]
	got, ok := imageForC(part)
	assert.True(t, ok)
	assert.Equal(t, ".version 6.4\x00", string(got))
	assert.Equal(t, ".version 6.4 and more", string(image), "the byte behind the image is the caller's")
}

func FuzzImageForC(f *testing.F) {
	f.Add([]byte(".version 6.4"))
	f.Add(elf([]byte("x")))
	f.Add(fatbin(3))
	huge := elf(nil)
	binary.LittleEndian.PutUint64(huge[0x28:], ^uint64(0))
	f.Add(huge)
	f.Fuzz(func(t *testing.T, image []byte) {
		if got, ok := imageForC(image); ok && len(got) == 0 {
			t.Error("an image without bytes")
		}
	})
}

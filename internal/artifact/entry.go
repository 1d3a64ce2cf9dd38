package artifact

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// Key is the SHA-256 of everything that the content of an entry depends on.
type Key [sha256.Size]byte

// entrySuffix ends the name of every entry, so that nothing else in the directory is
// taken for one.
const entrySuffix = ".artifact"

func (k Key) file() string { return hex.EncodeToString(k[:]) + entrySuffix }

// isEntry reports whether a file name belongs to an entry.
func isEntry(name string) bool {
	digits, ok := strings.CutSuffix(name, entrySuffix)
	_, err := hex.DecodeString(digits)
	return ok && err == nil && len(digits) == 2*len(Key{})
}

// An entry is a header and the content. The header:
//
//	 0  magic and version of the format
//	 8  key
//	40  length of the content, little-endian
//	48  SHA-256 of the content
const (
	magic      = "pcudart\x01"
	headerSize = len(magic) + len(Key{}) + 8 + sha256.Size
)

// encode returns the header for a content.
func encode(key Key, content []byte) []byte {
	digest := sha256.Sum256(content)
	b := append([]byte(magic), key[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(content)))
	return append(b, digest[:]...)
}

// decode returns the content of a file, which it checks. The content shares its memory.
func decode(key Key, file []byte) ([]byte, error) {
	if len(file) < headerSize {
		return nil, fmt.Errorf("%d bytes are no entry", len(file))
	}
	if !bytes.HasPrefix(file, []byte(magic)) {
		return nil, errors.New("not an entry of this version")
	}
	header, content := file[len(magic):headerSize], file[headerSize:]
	if !bytes.HasPrefix(header, key[:]) {
		return nil, errors.New("the entry of another key")
	}
	header = header[len(key):]
	if length := binary.LittleEndian.Uint64(header); length != uint64(len(content)) {
		return nil, fmt.Errorf("%d bytes, not %d", len(content), length)
	}
	if digest := sha256.Sum256(content); !bytes.Equal(digest[:], header[8:]) {
		return nil, errors.New("the content is damaged")
	}
	return content, nil
}

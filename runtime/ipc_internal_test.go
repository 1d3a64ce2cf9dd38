package runtime

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
)

// FuzzIPCHandle takes any bytes for a handle, as they are and with the beginning and the checksum of one.
func FuzzIPCHandle(f *testing.F) {
	var known IPCHandle
	known.set(ipcParts{Element: 4, Count: 100, Offset: 12, Device: driver.UUID{1, 2}, Memory: driver.IpcMemHandle{3}})
	f.Add([]byte{})
	f.Add(known[:])
	f.Fuzz(func(t *testing.T, data []byte) {
		var h, forged IPCHandle
		copy(h[:], data)
		copy(forged[:], data)
		copy(forged[:], ipcMagic[:])
		binary.LittleEndian.PutUint32(forged[4:], ipcVersion)
		binary.LittleEndian.PutUint32(forged[ipcPartsBytes:], crc32.ChecksumIEEE(forged[:ipcPartsBytes]))
		element, device := binary.LittleEndian.Uint64(forged[8:]), driver.UUID(forged[32:48])
		for _, h := range []IPCHandle{h, forged} {
			p, err := h.parse(element, device)
			if err != nil {
				require.ErrorIs(t, err, driver.ErrInvalidArgument)
				continue
			}
			var again IPCHandle
			again.set(p)
			assert.Equal(t, h, again)
			assert.LessOrEqual(t, p.Count, uint64(math.MaxInt))
		}
		_, err := forged.parse(element+1, device)
		assert.ErrorIs(t, err, driver.ErrInvalidArgument)
		if _, err := forged.parse(element, device); err != nil {
			assert.Greater(t, binary.LittleEndian.Uint64(forged[16:]), uint64(math.MaxInt), "%v", err)
		}
	})
}

// The handle is as large as its parts, so that nothing is cut off.
func TestIPCHandle(t *testing.T) {
	assert.Equal(t, ipcPartsBytes, binary.Size(ipcParts{}))
	want := ipcParts{Magic: ipcMagic, Version: ipcVersion, Element: 8, Count: 3, Offset: 1 << 40, Device: driver.UUID{15: 9}, Memory: driver.IpcMemHandle{63: 7}}
	var h IPCHandle
	h.set(want)
	got, err := h.parse(8, want.Device)
	require.NoError(t, err)
	assert.Equal(t, want, got)
}

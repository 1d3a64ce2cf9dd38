package exec

import "encoding/binary"

// GridWindow is the address of the workspace of a cooperative launch. It lies above what a
// driver hands out, and is no address of a block or a thread.
const GridWindow uint64 = 0x7f01_0000_0000_0000

// newWorkspace makes what the barrier of cooperative_groups::this_grid() works on: a word
// with the size of the workspace, and a word that counts the blocks that have come.
func newWorkspace() []byte {
	w := alignedBytes(8)
	binary.LittleEndian.PutUint32(w, uint32(len(w)))
	return w
}

// environment reads an environment register. The first two hold the upper and the lower
// half of the workspace's address, which is 0 where the launch is not cooperative.
func (b *block) environment(number uint8) uint64 {
	if number != 1 && number != 2 {
		return 0
	}
	if !b.l.Cooperative {
		b.noGrid = true
		return 0
	}
	if number == 1 {
		return GridWindow >> 32
	}
	return GridWindow & 0xffffffff
}

// noGridHint explains a fault of a block that wanted the workspace and did not get it: a
// trap, or an access near address 0.
func (b *block) noGridHint(addr uint64) string {
	if !b.noGrid || addr >= 16 {
		return ""
	}
	return "the launch is not cooperative, and this kernel synchronises the whole grid"
}

package gpu

import "unsafe"

// A copy that is asynchronous goes from memory of the device to shared memory while the thread does other work: cp.async of
// PTX. Copies that a thread begins belong to the group that its next CopyCommit ends. Nobody reads what a copy writes
// before the thread has waited for its group; after a barrier the others may read it too. On the CPU the data arrive in
// CopyWait, not before, so that a wait that is missing or too short shows as wrong data.
//
// The functions need sm_80.

// asyncCopy is a copy that has begun.
type asyncCopy struct {
	to, from *Uint4
	bytes    int
	group    int
}

// CopyAsync begins to copy 16 bytes to shared memory.
func CopyAsync(t *Thread, shared, from *Uint4) { CopyAsyncPart(t, shared, from, 16) }

// CopyAsyncPart begins to copy the first bytes of 16 to shared memory, 0 to 16 of them, and writes zeros in place of the
// others. from is valid where it copies nothing too.
func CopyAsyncPart(t *Thread, shared, from *Uint4, bytes int) {
	if bytes < 0 || bytes > 16 {
		fault("gpu.CopyAsyncPart: %d bytes are not 0 to 16", bytes)
	}
	of := t.tensors()
	of.copies = append(of.copies, asyncCopy{shared, from, bytes, of.groups})
}

// CopyCommit ends a group of copies. It may be empty.
func CopyCommit(t *Thread) { t.tensors().groups++ }

// CopyWait waits for all groups that the thread has ended, but for the last n. n is a constant.
func CopyWait(t *Thread, n int) {
	if n < 0 {
		fault("gpu.CopyWait: %d groups", n)
	}
	if t.tensor == nil {
		return
	}
	done := 0
	for _, c := range t.tensor.copies {
		if c.group >= t.tensor.groups-n {
			break
		}
		to := (*[16]byte)(unsafe.Pointer(c.to))
		clear(to[copy(to[:c.bytes], (*[16]byte)(unsafe.Pointer(c.from))[:c.bytes]):])
		done++
	}
	t.tensor.copies = append(t.tensor.copies[:0], t.tensor.copies[done:]...)
}

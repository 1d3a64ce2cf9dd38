//go:build linux && (amd64 || arm64)

package nccl

import (
	"encoding/binary"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/library"
	"github.com/purecuda/purecuda/internal/testc"
)

// build builds testdata/fakenccl.c.
func build(t *testing.T, flags ...string) (file string) {
	t.Helper()
	return testc.Build(t, "testdata/fakenccl.c", flags...)
}

// fake opens a fake, and returns what reads what reached it.
func fake(t *testing.T, flags ...string) (l *Library, seen func() []int64) {
	t.Helper()
	file := build(t, flags...)
	l, err := Open(file)
	require.NoError(t, err)
	return l, testc.Seen(t, file)
}

// Every argument arrives in its place, an ID of 128 bytes by value as well.
func TestArguments(t *testing.T) {
	l, seen := fake(t)
	assert.Equal(t, [3]int{2, 14, 3}, l.Version())
	id, s := l.UniqueID()
	require.Equal(t, StatusSuccess, s)
	assert.Equal(t, byte(1), id[0])
	assert.Equal(t, byte(128), id[127])

	var words []int64
	for i := 0; i < len(id); i += 8 {
		words = append(words, int64(binary.NativeEndian.Uint64(id[i:])))
	}
	const comm = 0x7f0012345678
	for blocking, want := range map[bool]int64{false: 0, true: 1} {
		c, before := new(RawComm), id
		require.Equal(t, StatusSuccess, l.InitRank(c, 1<<20, &id, 77, blocking))
		assert.Equal(t, RawComm(comm), *c)
		assert.Equal(t, append(append([]int64{1 << 20, 77}, words...), 24, 0xcafebeef, 21400, want), seen())
		assert.Equal(t, before, id)
	}

	call := Call{Send: 0x7f0000000001, Recv: 0x7f0000000002, Count: 1 << 35, Type: TypeBFloat16, Op: Avg, Peer: 3}
	for kind, want := range map[Kind][]int64{
		KindAllReduce:     {0x7f0000000001, 0x7f0000000002, 1 << 35, 9, 4, comm, 0x55, 1},
		KindBroadcast:     {0x7f0000000001, 0x7f0000000002, 1 << 35, 9, 3, comm, 0x55, 2},
		KindReduce:        {0x7f0000000001, 0x7f0000000002, 1 << 35, 9, 4, 3, comm, 0x55, 3},
		KindAllGather:     {0x7f0000000001, 0x7f0000000002, 1 << 35, 9, comm, 0x55, 4},
		KindReduceScatter: {0x7f0000000001, 0x7f0000000002, 1 << 35, 9, 4, comm, 0x55, 5},
		KindSend:          {0x7f0000000001, 1 << 35, 9, 3, comm, 0x55, 6},
		KindRecv:          {0x7f0000000002, 1 << 35, 9, 3, comm, 0x55, 7},
	} {
		call.Kind = kind
		assert.Equal(t, StatusSuccess, l.Run(comm, 0x55, &call), kind)
		assert.Equal(t, want, seen(), kind)
	}
	call.Kind = 99
	assert.Equal(t, StatusInvalidArgument, l.Run(comm, 0x55, &call))
	assert.Equal(t, "no function", call.Kind.String())

	assert.Equal(t, StatusSuccess, max(l.GroupStart(), l.GroupEnd(), l.Finalize(1), l.Destroy(2), l.Abort(3)))
	assert.Equal(t, []int64{-100, -101, 1, 2, 3}, seen())
	state, s := l.AsyncError(comm)
	assert.Equal(t, [2]Status{StatusSuccess, StatusSuccess}, [2]Status{state, s})
	assert.Equal(t, []int64{comm}, seen())
	assert.Equal(t, "a cable is loose", l.LastError(comm))
	assert.Empty(t, l.LastError(0))
}

// What the library returns comes back, and what it cannot return does not.
func TestResults(t *testing.T) {
	l, _ := fake(t, "-DSTATUS=6", "-DSTATE=7")
	_, s := l.UniqueID()
	assert.Equal(t, StatusRemoteError, s)
	state, s := l.AsyncError(1)
	assert.Equal(t, [2]Status{StatusInProgress, StatusRemoteError}, [2]Status{state, s})
	err := failed(l, 1, "ncclAllReduce", s)
	require.ErrorIs(t, err, StatusRemoteError)
	require.ErrorIs(t, err, driver.ErrDriverCallFailed)
	assert.ErrorContains(t, err, "ncclRemoteError (6): another rank has ended, or the network to it: a cable is loose")
	assert.NoError(t, failed(l, 1, "ncclAllReduce", StatusInProgress))
	assert.Equal(t, "nccl99 (99): a result that is newer than this program", Status(99).Error())
	assert.Equal(t, "ncclTimeout", StatusTimeout.Name())
	assert.Contains(t, StatusTimeout.Error(), "it took too long")

	l, _ = fake(t, "-DSTATUS=-9", "-DSTATE=-9")
	assert.Equal(t, StatusImpossibleValue, l.GroupStart())
	state, _ = l.AsyncError(1)
	assert.Equal(t, StatusImpossibleValue, state)
	l, _ = fake(t, "-DNO_ID")
	_, s = l.UniqueID()
	assert.Equal(t, StatusImpossibleValue, s, "an ID of zeros")

	var none *Library
	assert.Equal(t, StatusSymbolMissing, none.GroupStart())
	assert.Empty(t, none.LastError(1))
	assert.Empty(t, none.Path())
	assert.Empty(t, none.Attempts())
	assert.Zero(t, none.Version())
}

func TestTooOld(t *testing.T) {
	file := build(t, "-DOLD", "-DVERSION=21003")
	_, err := Open(file)
	require.ErrorIs(t, err, driver.ErrDriverLibraryLoadFailed)
	assert.ErrorContains(t, err, "ncclCommInitRankConfig needs NCCL 2.14, found 2.10.3")
	_, err = Open(build(t, "-DOLD", "-DVERSION=22000"))
	assert.ErrorContains(t, err, "lacks ncclCommInitRankConfig: not NCCL, or one older than 2.14")
}

func TestAbsence(t *testing.T) {
	t.Setenv(PathVariable, "")
	nowhere := filepath.Join(t.TempDir(), "libnccl.so.2")
	_, err := Open(nowhere)
	require.ErrorIs(t, err, driver.ErrLibraryUnavailable)
	for _, part := range []string{"no NCCL to move data between devices with", "libnccl2", "pip install nvidia-nccl", PathVariable, nowhere} {
		assert.ErrorContains(t, err, part)
	}
	l, err := Open(nowhere, build(t))
	require.NoError(t, err)
	require.Len(t, l.Attempts(), 1)
	assert.Equal(t, nowhere, l.Attempts()[0].Name)
	t.Setenv(PathVariable, "/somewhere/libnccl.so")
	assert.Equal(t, []string{"/somewhere/libnccl.so"}, library.NCCL.Candidates())
}

// TestHeader compares with NVIDIA's header, where a compiler and the headers are.
func TestHeader(t *testing.T) { testc.CheckHeader(t, "nccl.h", "testdata/abi_check.c") }

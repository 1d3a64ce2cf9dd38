//go:build linux

package cluster_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"

	"github.com/purecuda/purecuda/cluster"
)

// filling is something that is too small, or becomes full, and has room again after a time.
type filling struct {
	name    string
	folder  string // of the server
	memory  int64  // of a worker, or 0
	options []cluster.Option
	strike  func(c *cluster.Cluster, server *process, hosts []*process, pause time.Duration)
}

// fillings are what the campaign "fill" fills.
func fillings(t *testing.T, random *rand.Rand) filling {
	f := filling{folder: t.TempDir()}
	switch random.IntN(4) {
	case 0:
		f.name = "the disk of the server"
		small(t, f.folder, 256<<20)
		f.options = []cluster.Option{cluster.WithMaxBytes(48 << 20)} // the server reserves three times as much
		f.strike = func(_ *cluster.Cluster, server *process, _ []*process, pause time.Duration) {
			file := filepath.Join(f.folder, "other")
			stuff(t, file)
			time.Sleep(pause)
			assert.NoError(t, os.Remove(file))
			server.kill() // a server without room has ended its streams until somebody starts it again
			server.start()
		}
	case 1:
		f.name = "the streams and the object store"
		f.options = []cluster.Option{cluster.WithMaxBytes(64 << 20)}
		f.strike = func(c *cluster.Cluster, _ *process, _ []*process, pause time.Duration) {
			empty := cram(t, c)
			time.Sleep(pause)
			empty()
		}
	case 2:
		f.name, f.memory = "the memory of the workers", 24<<20 // 6 MiB for messages, and one piece of 8 MiB with its result
		f.strike = func(_ *cluster.Cluster, _ *process, hosts []*process, pause time.Duration) {
			p := hosts[random.IntN(len(hosts))]
			p.kill()
			time.Sleep(pause)
			p.start()
		}
	case 3:
		f.name = "the descriptors of a worker or the server"
		f.strike = func(_ *cluster.Cluster, server *process, hosts []*process, pause time.Duration) {
			p := append(hosts, server)[random.IntN(len(hosts)+1)]
			restore := descriptors(t, p, random.IntN(3))
			time.Sleep(pause)
			restore()
		}
	}
	return f
}

// small makes a folder a disk of so many bytes.
func small(t *testing.T, folder string, bytes int) {
	err := syscall.Mount("tmpfs", folder, "tmpfs", 0, fmt.Sprintf("size=%d", bytes))
	if err != nil {
		t.Skipf("a small disk needs the right to mount one: %v", err)
	}
	t.Cleanup(func() { assert.NoError(t, syscall.Unmount(folder, syscall.MNT_DETACH)) })
}

// stuff makes a file that takes what is left of a disk.
func stuff(t *testing.T, name string) {
	f, err := os.Create(name)
	if !assert.NoError(t, err) {
		return
	}
	defer f.Close()
	for block := make([]byte, 1<<20); len(block) > 0; {
		if _, err := f.Write(block); err != nil {
			assert.ErrorIs(t, err, syscall.ENOSPC)
			block = block[:len(block)/2]
		}
	}
}

// cram fills the queue and the object store with what is another's, and returns what removes that.
func cram(t *testing.T, c *cluster.Cluster) (empty func()) {
	js, err := jetstream.New(cluster.Connection(c))
	if !assert.NoError(t, err) {
		return func() {}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	data := make([]byte, 900<<10)
	for i := 0; ; i++ {
		if _, err := js.Publish(ctx, fmt.Sprint("purecuda.v1.work.other.", i), data); err != nil {
			break // it is full, or away
		}
	}
	store, err := js.ObjectStore(ctx, "purecuda_v1_data")
	var names []string
	for i := 0; err == nil; i++ { // where the call has made one
		names = append(names, fmt.Sprint("other", i))
		_, err = store.PutBytes(ctx, names[i], data)
	}
	return func() {
		defer cancel()
		s, err := js.Stream(ctx, "purecuda_v1_work")
		if assert.NoError(t, err) {
			assert.NoError(t, s.Purge(ctx, jetstream.WithPurgeSubject("purecuda.v1.work.other.*")))
		}
		for _, name := range names {
			_ = store.Delete(ctx, name) // the last one is not there
		}
	}
}

// descriptors leaves a process so many more descriptors than it has, and returns what restores its limit.
func descriptors(t *testing.T, p *process, more int) (restore func()) {
	pid := p.cmd.Process.Pid
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	assert.NoError(t, err)
	var before syscall.Rlimit
	limit := func(to, old *syscall.Rlimit) {
		_, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), syscall.RLIMIT_NOFILE, uintptr(unsafe.Pointer(to)), uintptr(unsafe.Pointer(old)), 0, 0)
		assert.Zero(t, errno)
	}
	limit(nil, &before)
	limit(&syscall.Rlimit{Cur: uint64(len(open) + more), Max: before.Max}, nil)
	for _, child := range childrenOf(pid) { // another one needs some
		_ = syscall.Kill(child, syscall.SIGKILL) // it may have ended
	}
	return func() { limit(&before, nil) }
}

// childrenOf are the processes that a process has started.
func childrenOf(pid int) (all []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		text, _ := os.ReadFile(list) // the thread may have ended
		for field := range strings.FieldsSeq(string(text)) {
			var child int
			if _, err := fmt.Sscan(field, &child); err == nil {
				all = append(all, child)
			}
		}
	}
	return all
}

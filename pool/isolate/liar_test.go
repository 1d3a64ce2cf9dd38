//go:build linux && (amd64 || arm64)

package isolate_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/internal/seeds"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/pool/isolate"
	"github.com/purecuda/purecuda/runtime"
)

// lying tells a child that it is to lie, with a seed.
const lying = "PURECUDA_TEST_LIAR"

// The kinds of frames, as wire.go has them.
const (
	callKind   = 2
	stopKind   = 6
	readyKind  = 7
	failedKind = 8
	resultKind = 9
	errorKind  = 10
)

// liar is a child that says what it likes.
type liar struct {
	chance *rand.Rand
	socket *os.File
}

// lie is the life of a child that lies.
func lie(seed uint64) int {
	l := &liar{chance: rand.New(rand.NewPCG(seed, uint64(os.Getpid()))), socket: os.NewFile(3, "parent")}
	if l.chance.IntN(8) == 0 {
		l.lie(0, nil)
	}
	if l.chance.IntN(16) > 0 {
		l.say(readyKind, 0, nil)
	}
	head := make([]byte, 17)
	for {
		if _, err := io.ReadFull(l.socket, head); err != nil {
			return 0
		}
		content := make([]byte, binary.LittleEndian.Uint32(head)-13)
		if _, err := io.ReadFull(l.socket, content); err != nil {
			return 0
		}
		number := binary.LittleEndian.Uint64(head[5:])
		switch head[4] {
		case callKind:
			name := int(content[0])
			content = content[1+name:]
			key := int(content[0])
			content = content[1+key:]
			trace := int(content[0])
			buffers := int(binary.LittleEndian.Uint16(content[1+trace:]))
			data := content[1+trace+2+8*buffers:]
			if l.chance.IntN(3) > 0 {
				l.say(resultKind, number, data)
			} else {
				l.lie(number, data)
			}
		case stopKind:
			if l.chance.IntN(4) > 0 {
				return 0
			}
		}
	}
}

// say sends a frame in order.
func (l *liar) say(kind byte, number uint64, content []byte) {
	l.frame(uint32(13+len(content)), kind, number, content)
}

func (l *liar) frame(length uint32, kind byte, number uint64, content []byte) {
	frame := binary.LittleEndian.AppendUint32(nil, length)
	frame = binary.LittleEndian.AppendUint64(append(frame, kind), number)
	frame = binary.LittleEndian.AppendUint32(frame, crc32.Checksum(content, crc32.MakeTable(crc32.Castagnoli)))
	_, _ = l.socket.Write(append(frame, content...)) // the parent may have killed it
}

// lie answers a call in a way that no child in order would.
func (l *liar) lie(number uint64, data []byte) {
	switch l.chance.IntN(19) {
	case 0: // of another length
		l.frame(l.chance.Uint32(), resultKind, number, data)
	case 1: // begins a frame of 16 MiB
		l.frame(13+16<<20, resultKind, number, data)
	case 2: // for a call that nobody made
		l.say(resultKind, l.chance.Uint64(), data)
	case 3: // for one that was answered long ago
		l.say(resultKind, number-1<<40, data)
	case 4: // twice
		l.say(resultKind, number, data)
		l.say(resultKind, number, data)
	case 5: // of no kind
		l.say(byte(l.chance.Uint32()), number, data)
	case 6:
		l.say(errorKind, number, bytes.Repeat([]byte{'{'}, 1<<uint(l.chance.IntN(24))))
	case 7:
		l.say(errorKind, number, fmt.Appendf(nil, `{"Text":"%0*d"}`, 1<<uint(l.chance.IntN(23)), 7))
	case 8:
		l.say(errorKind, number, []byte(`{"Driver":true,"Kind":"DeviceLost","Sticky":true,"Device":-5}`))
	case 9:
		l.say(readyKind, number, nil)
	case 10:
		l.say(failedKind, number, []byte(`{}`))
	case 11: // in small parts, with descriptors
		rights := syscall.UnixRights(0, 1, 2, 3)
		for range 200 {
			if syscall.Sendmsg(3, []byte{200}, rights, nil, 0) != nil {
				break
			}
		}
	case 12:
		for range 64 {
			_, _ = os.Stderr.Write(bytes.Repeat([]byte{'x'}, 64<<10))
		}
		l.say(resultKind, number, data)
	case 13:
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	case 14:
		l.socket.Close()
		time.Sleep(time.Hour)
	case 15:
		os.Exit(l.chance.IntN(3))
	case 16: // a part, and nothing more
		_, _ = l.socket.Write([]byte{100, 0, 0, 0, resultKind})
		time.Sleep(time.Hour)
	case 17: // late
		time.Sleep(time.Duration(l.chance.IntN(100)) * time.Millisecond)
		l.say(resultKind, number, data)
	default: // never
	}
}

// TestLiars gives children of a group to a liar: each request gets the right result or an error that says why, within its context, and
// nothing is left.
func TestLiars(t *testing.T) {
	before := len(descriptors("self"))
	seeds.Run(t, 12, func(seed uint64) *liars { return &liars{seed: seed} })
	assert.InDelta(t, before, len(descriptors("self")), 2, "descriptors")
}

type liars struct{ seed uint64 }

// Describe implements seeds.Program.
func (l *liars) Describe() string { return "" }

// Run implements seeds.Program.
func (l *liars) Run() error {
	chance := rand.New(rand.NewPCG(l.seed, 7))
	devices := 1 + chance.IntN(2)
	gpu := drivertest.New(machine(devices))
	rt, err := runtime.Open(runtime.WithDriver(gpu))
	if err != nil {
		return err
	}
	options := []isolate.Option{isolate.WithOutput(nil), isolate.WithEnvironment(lying + "=" + strconv.FormatUint(l.seed, 10)),
		isolate.WithReady(500 * time.Millisecond), isolate.WithStreams(1 + chance.IntN(4)), isolate.WithRestarts(5+chance.IntN(30), 300*time.Millisecond)}
	if chance.IntN(3) == 0 {
		options = append(options, isolate.WithFallback(cpu))
	}
	if chance.IntN(2) == 0 {
		options = append(options, isolate.WithStandby())
	}
	g, err := isolate.Open(rt, options...)
	if err != nil {
		return err
	}
	var workers sync.WaitGroup
	errs := make(chan error, 8)
	for worker := range 1 + chance.IntN(8) {
		own := rand.New(rand.NewPCG(l.seed, uint64(worker)+10))
		workers.Go(func() {
			for range 1 + own.IntN(8) {
				if err := l.request(g, own); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	workers.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(chance.IntN(500))*time.Millisecond)
	defer cancel()
	err = g.Shutdown(ctx)
	close(errs)
	return errors.Join(<-errs, err, rt.Close(), gpu.Close())
}

func (l *liars) request(g *isolate.Group, chance *rand.Rand) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(20+chance.IntN(200))*time.Millisecond)
	defer cancel()
	data := bytes.Repeat([]byte{byte(chance.Uint32())}, []int{0, 1, 100, 70_000, 4 << 20}[chance.IntN(5)])
	options := []isolate.Option{isolate.WithRetry(chance.IntN(3)), isolate.WithGrace(10 * time.Millisecond)}
	if chance.IntN(4) == 0 {
		b, err := g.NewBuffer(1 + chance.IntN(100_000))
		if err != nil {
			return err
		}
		defer b.Close()
		options = append(options, isolate.WithBuffers(b, b))
	}
	result, report, err := g.Do(ctx, "echo/v1", data, options...)
	if err == nil {
		if report.Where == pool.OnCPU {
			data = append([]byte("cpu "), data...)
		}
		if !bytes.Equal(result, data) {
			return fmt.Errorf("%d bytes came back, %d are right: %+v", len(result), len(data), report)
		}
		return nil
	}
	if _, told := errors.AsType[*isolate.RemoteError](err); told {
		return nil
	}
	for _, expected := range []error{isolate.ErrChildDied, isolate.ErrGaveUp, driver.ErrTimeout} {
		if errors.Is(err, expected) {
			return nil
		}
	}
	return err
}

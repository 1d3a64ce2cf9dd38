package wait

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/internal/allocs"
)

// ways are the machines that all tests of waiting run on.
var ways = []struct {
	name   string
	config drivertest.Config
	how    Config
	writes bool
}{
	{"writes", drivertest.Config{}, Config{}, true},
	{"writes, current context", drivertest.Config{}, Config{}, true},
	{"8 connections", drivertest.Config{Connections: 8}, Config{}, true},
	{"driver 11.0", drivertest.Config{Version: 11000}, Config{}, false},
	{"driver 11.8", drivertest.Config{Version: 11080}, Config{}, true},
	{"driver 12.2", drivertest.Config{Version: 12020}, Config{}, true},
	{"device without writes", drivertest.Config{Devices: []drivertest.DeviceConfig{{
		Attributes: map[driver.DeviceAttribute]int32{driver.DeviceAttributeCanUse64BitStreamMemOps: 0}}}}, Config{}, false},
	{"function missing", drivertest.Config{Missing: []string{"cuStreamWriteValue64"}}, Config{}, false},
	{"writes refused", drivertest.Config{OnCall: func(op string) driver.Result {
		if op == "cuStreamWriteValue64" {
			return driver.ResultNotSupported
		}
		return driver.Success
	}}, Config{}, false},
	{"no memory for tickets", drivertest.Config{HostMemory: 1}, Config{MaxBytes: 1}, false},
	{"events", drivertest.Config{}, Config{NoWrites: true}, false},
}

// everyWay runs a test on all machines.
func everyWay(t *testing.T, test func(m *machine, writes bool)) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) { test(start(t, way.config, way.how), way.writes) })
	}
}

func TestWait(t *testing.T) {
	everyWay(t, func(m *machine, writes bool) {
		s := m.stream()
		assert.NoError(m, s.Wait(background), "nothing is on it")
		for range 50 {
			done := m.work(s)
			require.NoError(m, s.Wait(background))
			assert.True(m, done.Load())
		}
		release := m.block(s)
		waited := wait(background, s)
		assert.Empty(m, waited)
		release()
		assert.NoError(m, within(m.TB, waited))
		if writes {
			assert.NotZero(m, s.dev.Bytes())
			assert.Zero(m, m.gpu.Calls("cuEventRecord"))
		}
		assert.Zero(m, m.gpu.Calls("cuStreamSynchronize")+m.gpu.Calls("cuEventSynchronize"))
	})
}

// One that finishes does not end the wait for one that does not.
func TestWaitsOfStreamsAreTheirOwn(t *testing.T) {
	everyWay(t, func(m *machine, _ bool) {
		a, b := m.stream(), m.stream()
		releaseA, releaseB := m.block(a), m.block(b)
		first := wait(background, a)
		second, err := b.Mark()
		require.NoError(m, err)
		releaseA()
		assert.NoError(m, within(m.TB, first))
		assert.False(m, second.Done())
		releaseB()
		assert.NoError(m, second.Wait(background))
		assert.True(m, second.Done())
	})
}

func TestTicketsOfOneStreamInAnyOrder(t *testing.T) {
	everyWay(t, func(m *machine, _ bool) {
		s := m.stream()
		var tickets []Ticket
		var releases []func()
		for range 100 { // more than reapAt, and than a cell has words
			releases = append(releases, m.block(s))
			ticket, err := s.Mark()
			require.NoError(m, err)
			tickets = append(tickets, ticket)
		}
		var waits []<-chan error
		for i := range tickets {
			waits = append(waits, wait(background, tickets[(i*37)%len(tickets)]))
		}
		for i, release := range releases {
			for _, later := range tickets[i:] {
				require.False(m, later.Done())
			}
			release()
			require.NoError(m, tickets[i].Wait(background))
		}
		for _, waited := range waits {
			assert.NoError(m, within(m.TB, waited))
		}
	})
}

func TestContextEndsAWait(t *testing.T) {
	everyWay(t, func(m *machine, _ bool) {
		s := m.stream()
		release := m.block(s)
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(background)
		var waits []<-chan error
		for range 20 {
			waits = append(waits, wait(ctx, s))
		}
		other := wait(background, s)
		time.Sleep(time.Millisecond)
		cancel(cause)
		for _, waited := range waits {
			assert.Equal(m, cause, within(m.TB, waited))
		}
		assert.Equal(m, cause, s.Wait(ctx), "ended before")
		assert.Empty(m, other)
		release()
		assert.NoError(m, within(m.TB, other))
	})
}

func TestAfterFunc(t *testing.T) {
	everyWay(t, func(m *machine, _ bool) {
		s := m.stream()
		ran, stop := after(s)
		assert.NoError(m, within(m.TB, ran))
		assert.False(m, stop())

		release := m.block(s)
		ran, _ = after(s)
		stopped, stop := after(s)
		assert.True(m, stop())
		assert.False(m, stop())
		assert.Empty(m, ran)
		release()
		assert.NoError(m, within(m.TB, ran))
		assert.NoError(m, s.Wait(background))
		assert.Empty(m, stopped)
	})
}

func TestZeroTicketIsDone(t *testing.T) {
	assert.True(t, Ticket{}.Done())
	assert.NoError(t, Ticket{}.Wait(background))
	ran, stop := after(Ticket{})
	assert.NoError(t, within(t, ran))
	assert.False(t, stop())
}

// Waits with nothing put on the stream between them need one write.
func TestTicketsAreShared(t *testing.T) {
	m := start(t, drivertest.Config{}, Config{})
	s := m.stream()
	release := m.block(s)
	first, err := s.Mark()
	require.NoError(t, err)
	var waits []<-chan error
	for range 50 {
		waits = append(waits, wait(background, s))
	}
	m.waiting(50)
	assert.Equal(t, 1, m.gpu.Calls("cuStreamWriteValue64"))
	assert.EqualValues(t, 50, m.poller.Stats().Shared)
	again := m.block(s)
	second, err := s.Mark()
	require.NoError(t, err)
	assert.NotEqual(t, first, second)
	release()
	for _, waited := range waits {
		assert.NoError(t, within(t, waited))
	}
	assert.False(t, second.Done())
	again()
	assert.NoError(t, second.Wait(background))
}

// A fault writes nothing: whoever waits, for whatever stream, hears of it with its cause.
func TestFaultWakesEverybody(t *testing.T) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			config := way.config
			config.Devices = append(config.Devices, config.Devices...)
			if len(config.Devices) == 0 {
				config.Devices = drivertest.Devices(2, drivertest.H100())
			}
			m := start(t, config, way.how)
			a, b, c := m.stream(), m.stream(), m.streamOn(1)
			release := []func(){m.block(a), m.block(b), m.block(c)}
			m.fault(a)
			ran, _ := after(a)
			waits := []<-chan error{wait(background, a), wait(background, b), wait(background, c), ran}
			m.waiting(len(waits))
			release[0]()
			for _, waited := range waits {
				err := within(t, waited)
				assert.ErrorIs(t, err, driver.ResultIllegalAddress)
				assert.ErrorIs(t, err, driver.ErrDeviceLost)
			}
			assert.ErrorIs(t, a.Wait(background), driver.ResultIllegalAddress)
			ran, _ = after(b)
			assert.ErrorIs(t, within(t, ran), driver.ResultIllegalAddress)
			for _, f := range release {
				f()
			}
		})
	}
}

func TestDeviceThatVanishesWakesItsOwnWaiters(t *testing.T) {
	m := start(t, drivertest.Config{Devices: drivertest.Devices(2, drivertest.H100())}, Config{})
	m.quiet = true
	a, b := m.streamOn(0), m.streamOn(1)
	releaseA, releaseB := m.block(a), m.block(b)
	lost, _ := after(a)
	first, second := wait(background, a), wait(background, b)
	m.waiting(3)
	m.gpu.Vanish(0)
	assert.ErrorIs(t, within(t, first), driver.ResultUnknown)
	assert.ErrorIs(t, within(t, lost), driver.ResultUnknown)
	assert.Empty(t, second)
	releaseA()
	releaseB()
	assert.NoError(t, within(t, second))
}

func TestLoseAndClose(t *testing.T) {
	cause, later := errors.New("the first"), errors.New("another")
	for name, end := range map[string]func(m *machine, d *Device){
		"the process":  func(m *machine, _ *Device) { m.poller.Lose(cause) },
		"a device":     func(_ *machine, d *Device) { d.Lose(cause) },
		"a generation": func(_ *machine, d *Device) { d.Close(cause) },
	} {
		t.Run(name, func(t *testing.T) {
			everyWay(t, func(m *machine, _ bool) {
				s, idle := m.stream(), m.stream()
				d := s.dev
				early, err := s.Mark()
				require.NoError(m, err)
				require.NoError(m, early.Wait(background))
				release := m.block(s)
				ran, _ := after(s)
				waited := wait(background, s)
				m.waiting(3)
				end(m, d)
				d.Lose(later)
				assert.Equal(m, cause, within(m.TB, waited))
				assert.Equal(m, cause, within(m.TB, ran))
				assert.Equal(m, cause, s.Wait(background))
				assert.Equal(m, cause, idle.Wait(background))
				ran, _ = after(s)
				assert.Equal(m, cause, within(m.TB, ran))
				assert.NoError(m, early.Wait(background), "it was done before")
				release()
			})
		})
	}
}

// A new generation of the context has waits of its own, while the old ones end.
func TestReset(t *testing.T) {
	everyWay(t, func(m *machine, _ bool) {
		old := m.stream()
		release := m.block(old)
		waited := wait(background, old)
		m.waiting(1)
		d := m.devices[0]
		d.Close(errEnd)
		assert.Equal(m, errEnd, within(m.TB, waited))
		release()
		m.destroy(old)
		m.end(d)
		m.devices[0] = m.open(0, d.config)
		s := m.stream()
		release = m.block(s)
		waited = wait(background, s)
		release()
		assert.NoError(m, within(m.TB, waited))
		assert.Equal(m, errEnd, old.Wait(background))
	})
}

// Closing a stream ends neither its work nor the waits for it.
func TestStreamClosedWhileSomebodyWaits(t *testing.T) {
	everyWay(t, func(m *machine, _ bool) {
		s := m.stream()
		release := m.block(s)
		ran, _ := after(s)
		waited := wait(background, s)
		ticket, err := s.Mark()
		require.NoError(m, err)
		m.waiting(2)
		m.destroy(s)
		assert.Empty(m, waited)
		assert.ErrorIs(m, s.Wait(background), driver.ErrClosed)
		release()
		assert.NoError(m, within(m.TB, waited))
		assert.NoError(m, within(m.TB, ran))
		assert.NoError(m, ticket.Wait(background))
		s.Close()
	})
}

// Who waits does not end a capture, neither of the stream nor of another one.
func TestWaitsBesideCaptures(t *testing.T) {
	everyWay(t, func(m *machine, _ bool) {
		s, other := m.stream(), m.stream()
		release := m.block(s)
		waits := []<-chan error{wait(background, s)}
		m.waiting(1)
		s.Suspend()
		m.ok(m.gpu.StreamBeginCapture(s.handle, driver.CaptureRelaxed))
		releaseOther := m.block(other)
		waits = append(waits, wait(background, other))
		time.Sleep(5 * silence)
		releaseOther()
		release()
		assert.NoError(m, within(m.TB, waits[1]))
		graph, r := m.gpu.StreamEndCapture(s.handle)
		m.ok(r)
		m.ok(m.gpu.GraphDestroy(graph))
		s.Resume()
		assert.NoError(m, within(m.TB, waits[0]))
	})
}

// A driver that does not come back from a question keeps nobody from being woken.
func TestDriverThatHangs(t *testing.T) {
	hang := make(chan struct{})
	m := start(t, drivertest.Config{OnCall: func(op string) driver.Result {
		if op == "cuStreamQuery" {
			<-hang
		}
		return driver.Success
	}}, Config{})
	var waits []<-chan error
	var releases []func()
	for range 8 {
		s := m.stream()
		releases = append(releases, m.block(s))
		waits = append(waits, wait(background, s))
	}
	ctx, cancel := context.WithCancel(background)
	forever := m.stream()
	releases = append(releases, m.block(forever))
	never := wait(ctx, forever)
	for m.gpu.Calls("cuStreamQuery") < askMax {
		time.Sleep(time.Millisecond)
	}
	for i, waited := range waits {
		releases[i]()
		assert.NoError(t, within(t, waited))
	}
	cancel()
	assert.Equal(t, context.Canceled, within(t, never))
	assert.Equal(t, askMax, m.gpu.Calls("cuStreamQuery"))
	close(hang)
}

// A driver that takes a write and never makes it costs a millisecond, and nothing else.
func TestWriteThatNeverComes(t *testing.T) {
	m := start(t, drivertest.Config{}, Config{})
	m.reopen(deaf{m.gpu})
	s := m.stream()
	m.work(s)
	assert.NoError(t, s.Wait(background))
}

type deaf struct{ driver.API }

func (deaf) StreamWriteValue64(driver.Stream, driver.DevicePtr, uint64, uint32) driver.Result {
	return driver.Success
}

// Cells go from stream to stream, numbers go on, and memory is bounded.
func TestCellsAreUsedAgain(t *testing.T) {
	m := start(t, drivertest.Config{}, Config{MaxBytes: 2 * pageBytes})
	var last uint64
	for range 3 * pageCells {
		s := m.stream()
		done := m.work(s)
		ticket, err := s.Mark()
		require.NoError(t, err)
		require.NoError(t, ticket.Wait(background))
		assert.True(t, done.Load())
		last = max(last, ticket.n)
		m.destroy(s)
	}
	assert.EqualValues(t, pageBytes, m.devices[0].Bytes())
	assert.Greater(t, last, uint64(1), "numbers of a cell go on")
	var open []*Stream
	for range 3 * pageCells {
		s := m.stream()
		require.NoError(t, s.Wait(background))
		open = append(open, s)
	}
	assert.EqualValues(t, 2*pageBytes, m.devices[0].Bytes())
	assert.True(t, open[len(open)-1].events.Load(), "there is no memory for more")
}

// The cell of a stream that was closed with a write on its way is used again when that has come.
func TestCellWithAWriteOnItsWay(t *testing.T) {
	m := start(t, drivertest.Config{}, Config{})
	s := m.stream()
	release := m.block(s)
	ticket, err := s.Mark()
	require.NoError(t, err)
	c := s.cell.Load()
	m.destroy(s)
	taken := map[*cell]bool{}
	for range pageCells {
		taken[m.devices[0].takeCell()] = true
	}
	assert.False(t, taken[c])
	release()
	require.NoError(t, ticket.Wait(background))
	assert.Equal(t, c, m.devices[0].takeCell())
}

// Two goroutines may put their writes on the stream the other way round.
func TestWritesInAnotherOrder(t *testing.T) {
	m := start(t, drivertest.Config{}, Config{})
	s := m.stream()
	require.NoError(t, s.Wait(background))
	first := s.issued.Add(1)
	second := s.issued.Add(cellWords)
	require.NoError(t, s.put(second))
	require.NoError(t, s.put(first))
	require.NoError(t, Ticket{&s.source, second}.Wait(background))
	m.ok(m.gpu.StreamSynchronize(s.handle))
	assert.Equal(t, second, s.cell.Load().top())
	assert.Zero(t, m.poller.Stats().Asks)
}

func TestEvent(t *testing.T) {
	m := start(t, drivertest.Config{}, Config{})
	s, d := m.stream(), m.devices[0]
	handle, err := d.takeEvent()
	require.NoError(t, err)
	e := d.NewEvent(handle)
	assert.NoError(t, e.Wait(background), "it marks nothing")
	release := m.block(s)
	m.ok(m.gpu.EventRecord(handle, s.handle))
	ctx, cancel := context.WithCancel(background)
	ended, waited := wait(ctx, e), wait(background, e)
	ran, _ := after(e)
	time.Sleep(time.Millisecond)
	cancel()
	assert.Equal(t, context.Canceled, within(t, ended))
	assert.Empty(t, waited)
	release()
	assert.NoError(t, within(t, waited))
	assert.NoError(t, within(t, ran))

	done := m.block(s)
	m.ok(m.gpu.EventRecord(handle, s.handle))
	before := e.Mark()
	ran, _ = after(e)
	e.Close()
	other := m.stream()
	m.ok(m.gpu.EventRecord(handle, other.handle))
	assert.NoError(t, d.NewEvent(handle).Wait(background))
	assert.Empty(t, ran, "the event marks something else now")
	assert.False(t, before.Done())
	done()
	assert.NoError(t, within(t, ran))
	assert.NoError(t, before.Wait(background))
	d.returnEvent(handle)
}

// A wait that begins when nobody knows any more about the work of a closed stream fails.
func TestLateWaitForAStreamThatIsClosed(t *testing.T) {
	for _, op := range []string{"cuEventRecord", "cuEventQuery"} {
		m := start(t, drivertest.Config{}, Config{})
		m.quiet = true
		s := m.stream()
		release := m.block(s)
		late, err := s.Mark()
		require.NoError(t, err)
		m.gpu.Fail(op, 1, driver.ResultUnknown)
		m.destroy(s)
		assert.ErrorIs(t, within(t, wait(background, late)), driver.ResultUnknown, op)
		ended, _ := after(late)
		assert.ErrorIs(t, within(t, ended), driver.ResultUnknown, op)
		release()
	}
}

// What an event marked that was closed is waited for in another way. If that fails the waits do.
func TestEventThatIsClosed(t *testing.T) {
	for _, op := range []string{"cuEventQuery", "cuStreamCreate", "cuStreamWaitEvent"} {
		m := start(t, drivertest.Config{}, Config{})
		s, d := m.stream(), m.devices[0]
		handle, err := d.takeEvent()
		require.NoError(t, err)
		e := d.NewEvent(handle)
		release := m.block(s)
		m.ok(m.gpu.EventRecord(handle, s.handle))
		late := e.Mark()
		m.gpu.Fail(op, 1, driver.ResultUnknown)
		m.quiet = true
		e.Close()
		e.Close()
		assert.ErrorIs(t, within(t, wait(background, late)), driver.ResultUnknown, op)
		ended, _ := after(late)
		assert.ErrorIs(t, within(t, ended), driver.ResultUnknown, op)
		release()
		d.returnEvent(handle)
	}
}

// Who waits beside others asks about its event, also while none of them spins for a moment. Who waits alone does not.
func TestSpinsBesideOthers(t *testing.T) {
	defer goruntime.GOMAXPROCS(goruntime.GOMAXPROCS(8)) // of which a quarter may spin
	m := start(t, drivertest.Config{}, Config{})
	d := m.devices[0]
	handle, err := d.takeEvent()
	require.NoError(t, err)
	e := d.NewEvent(handle)
	spins := func() bool {
		e.usual.Store(0) // on a slow machine that is too long
		return e.Spins()
	}
	for range 3 {
		require.NoError(t, e.Wait(background))
		assert.False(t, spins())
	}
	m.poller.spinning.Add(1) // somebody else spins
	require.NoError(t, e.Wait(background))
	m.poller.spinning.Add(-1)
	for i := range besideFor {
		require.True(t, spins(), i)
	}
	assert.False(t, spins())
	m.poller.spinners.Store(1) // then nobody spins beside another one
	m.poller.spinning.Add(1)
	require.False(t, m.poller.spin(&e.source))
	m.poller.spinning.Add(-1)
	assert.False(t, spins())
	e.Close()
	d.returnEvent(handle)
}

// A write spares the question, also where the last question was asked before there was a cell.
func TestEventThatIsWritten(t *testing.T) {
	for _, how := range []Config{{}, {NoWrites: true}} {
		m := start(t, drivertest.Config{}, how)
		s, d := m.stream(), m.devices[0]
		handle, err := d.takeEvent()
		require.NoError(t, err)
		e := d.NewEvent(handle)
		for range 3 * cellWords {
			release := m.block(s)
			m.ok(m.gpu.EventRecord(handle, s.handle))
			ran, _ := after(e)
			release()
			require.NoError(t, within(t, ran))
			release = m.block(s)
			m.ok(m.gpu.EventRecord(handle, s.handle))
			t1 := e.Write(s.handle)
			require.False(t, t1.Done())
			release()
			m.ok(m.gpu.StreamSynchronize(s.handle))
			if !how.NoWrites {
				require.True(t, t1.Done(), "without a question")
			}
			require.NoError(t, t1.Wait(background))
		}
		e.Close()
		d.returnEvent(handle)
	}
}

// A refused question fails the waits for that stream, and no others.
func TestQuestionThatFails(t *testing.T) {
	m := start(t, drivertest.Config{}, Config{})
	s := m.stream()
	release := m.block(s)
	m.gpu.Fail("cuStreamQuery", 1, driver.ResultUnknown)
	assert.ErrorIs(t, within(t, wait(background, s)), driver.ResultUnknown)
	waited := wait(background, s)
	release()
	assert.NoError(t, within(t, waited))
}

// A write that fails is replaced by an event.
func TestWriteThatFails(t *testing.T) {
	m := start(t, drivertest.Config{}, Config{})
	s := m.stream()
	release := m.block(s)
	m.quiet = true
	m.gpu.Fail("cuStreamWriteValue64", 1, driver.ResultOutOfMemory)
	waited := wait(background, s)
	for m.gpu.Calls("cuEventRecord") == 0 {
		time.Sleep(time.Millisecond)
	}
	assert.Empty(t, waited)
	release()
	assert.NoError(t, within(t, waited))

	m.gpu.Fail("cuStreamWriteValue64", 1, driver.ResultOutOfMemory)
	m.gpu.Fail("cuEventRecord", 1, driver.ResultUnknown)
	m.work(s)
	assert.ErrorIs(t, s.Wait(background), driver.ResultUnknown)
	assert.NoError(t, s.Wait(background))
}

func TestManyStreamsOfAFailingDevice(t *testing.T) {
	m := start(t, drivertest.Config{}, Config{})
	m.quiet = true
	var waits []<-chan error
	var releases []func()
	for range 10 * askBatch {
		s := m.stream()
		releases = append(releases, m.block(s))
		waits = append(waits, wait(background, s))
	}
	m.waiting(len(waits))
	m.gpu.Vanish(0)
	for i, waited := range waits {
		assert.ErrorIs(t, within(t, waited), driver.ResultUnknown, fmt.Sprint(i))
	}
	for _, release := range releases {
		release()
	}
}

func TestPollerEndsWhenNobodyWaits(t *testing.T) {
	m := start(t, drivertest.Config{}, Config{})
	s := m.stream()
	release := m.block(s)
	waited := wait(background, s)
	release()
	require.NoError(t, within(t, waited))
	poll(t, "the poller runs", func() bool {
		m.poller.mu.Lock()
		defer m.poller.mu.Unlock()
		return !m.poller.running
	})
}

func TestWaitThatSpinsAllocatesNothing(t *testing.T) {
	m := start(t, drivertest.Config{}, Config{})
	api := &instant{API: m.gpu}
	m.reopen(api)
	s := m.stream()
	api.s = s
	require.NoError(t, s.Wait(background))
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	allocs.AtMost(t, 0, 100, func() {
		s.Changed()
		_ = s.Wait(ctx)
	})
}

// instant makes writes at once.
type instant struct {
	driver.API
	s *Stream
}

func (d *instant) StreamWriteValue64(_ driver.Stream, _ driver.DevicePtr, value uint64, _ uint32) driver.Result {
	d.s.cell.Load().words[value%cellWords] = value
	return driver.Success
}

// Long work is marked by an event, since a write would hold up what other streams put on the same
// connection later.
func TestLongWorkHoldsUpNobody(t *testing.T) {
	for _, long := range []bool{false, true} {
		m := start(t, drivertest.Config{Connections: 1}, Config{})
		s, other := m.stream(), m.stream()
		require.NoError(t, s.Wait(background))
		if long {
			s.longWork()
		}
		release := m.block(s)
		m.gpu.ResetCalls()
		waited := wait(background, s)
		m.waiting(2)
		require.Equal(t, map[bool]int{true: 0, false: 1}[long], m.gpu.Calls("cuStreamWriteValue64"))
		if done := m.work(other); long {
			m.ok(m.gpu.StreamSynchronize(other.handle))
			assert.True(t, done.Load())
		} else {
			m.quiet = true
			assert.False(t, done.Load())
		}
		assert.Empty(t, waited)
		release()
		require.NoError(t, within(t, waited))
	}
}

// A stream has so many events and no more: further numbers are written.
func TestLongWorkByMany(t *testing.T) {
	m := start(t, drivertest.Config{}, Config{})
	s := m.stream()
	require.NoError(t, s.Wait(background))
	s.longWork()
	release := m.block(s)
	m.gpu.ResetCalls()
	var all []<-chan error
	for i := range 2 * reapAt {
		m.work(s)
		all = append(all, wait(background, s))
		m.waiting(2 + i)
	}
	events := m.gpu.Calls("cuEventRecord")
	assert.LessOrEqual(t, events, reapAt+askMax, "one that is asked about may be off the list")
	assert.Equal(t, 2*reapAt, events+m.gpu.Calls("cuStreamWriteValue64"))
	release()
	for _, waited := range all {
		require.NoError(t, within(t, waited))
	}
	assert.True(t, s.fewMarks())
	assert.Empty(t, s.marks)
	assert.False(t, s.prompt.Load())
}

// A wait for long work ends while the stream must not be asked about.
func TestLongWorkOfASuspendedStream(t *testing.T) {
	m := start(t, drivertest.Config{}, Config{})
	s := m.stream()
	require.NoError(t, s.Wait(background))
	s.longWork()
	release := m.block(s)
	waited := wait(background, s)
	m.waiting(2)
	s.Suspend()
	defer s.Resume()
	m.gpu.ResetCalls()
	release()
	require.NoError(t, within(t, waited))
	assert.Zero(t, m.gpu.Calls("cuStreamQuery"))
}

// Work that was long and is short again is found to be, though the first question comes when the
// work is over that took as long as before, and though the question itself takes a while.
func TestWorkIsMeasuredAgain(t *testing.T) {
	for _, question := range []time.Duration{0, 100 * time.Microsecond, 400 * time.Microsecond} {
		s := &source{watched: true}
		s.prompt.Store(true)
		s.work.Store(int64(silence))
		s.long.Store(often)
		s.begin(clock())
		for n := uint64(1); s.long.Load() > 0; n++ {
			require.Less(t, n, uint64(50), "with questions of %v, waits are as long as the questions are apart", question)
			w := &waiter{n: n, woken: make(chan error, 1)}
			s.prompt.Store(true) // the number has a mark
			s.park(w)
			s.asked++
			s.prompt.Store(false) // which has just been found to be done
			require.Equal(t, 1, s.wakeDone(n, s.askAt+question))
			require.NoError(t, <-w.woken)
		}
	}
}

// Time in which nobody waited is no work.
func TestTimeBetweenWaitsIsNoWork(t *testing.T) {
	s := &source{watched: true}
	s.begin(clock() - time.Hour)
	for n := range uint64(10) {
		s.park(&waiter{n: n, woken: make(chan error, 1)})
		require.Equal(t, 1, s.wakeDone(n, clock()))
		assert.Less(t, time.Duration(s.work.Load()), time.Minute)
	}
}

// Once the waits of a device have ended, nobody asks its driver, also not who had just begun to.
func TestNoQuestionAfterClose(t *testing.T) {
	m := start(t, drivertest.Config{}, Config{})
	var late atomic.Int32
	for range 2000 {
		d := m.open(0, Config{})
		var closed atomic.Bool
		s := &source{dev: d, near: true}
		s.query = func(uint64) (uint64, error) {
			if closed.Load() {
				late.Add(1)
			}
			return 0, nil
		}
		var all sync.WaitGroup
		var began atomic.Bool
		all.Go(func() {
			d.due = []*source{s}
			began.Store(true)
			d.dispatch(clock())
		})
		all.Go(func() { _, _ = (Ticket{s, 1}).ask(background, clock()+5*time.Microsecond) })
		s.prompt.Store(true)
		all.Go(func() { Ticket{s, 1}.Poll() })
		for !began.Load() {
			goruntime.Gosched()
		}
		d.Close(errEnd)
		closed.Store(true)
		all.Wait()
		d.asks.Close(nil)
		m.gpu.DevicePrimaryCtxRelease(0)
	}
	assert.Zero(t, late.Load())
}

// The poller looks often where work usually ends, and little before and long after that.
func TestRest(t *testing.T) {
	const ms, us = time.Millisecond, time.Microsecond
	for _, c := range []struct{ work, passed, want time.Duration }{
		{0, 0, leastPause}, // nothing is known
		{0, 2 * ms, 2 * ms / 32},
		{2 * ms, 0, 2 * leastPause},
		{2 * ms, ms, 2 * leastPause},
		{20 * ms, 10 * ms, 10 * ms / 32},
		{20 * ms, 20*ms*15/16 - 30*us, 30 * us}, // until shortly before the end
		{20 * ms, 20*ms*15/16 - 10*us, leastPause},
		{20 * ms, 20 * ms, 20 * ms / 16 / 8},
		{2 * ms, 2 * ms, leastPause},
		{2 * ms, 10 * ms, 10 * ms / 32},
	} {
		s := &source{since: time.Second}
		s.work.Store(int64(c.work))
		assert.Equal(t, c.want, s.rest(s.since+c.passed), "%v of %v", c.passed, c.work)
	}
}

func TestSleeper(t *testing.T) {
	for range 2 {
		var s sleeper
		for _, d := range []time.Duration{0, leastPause, time.Millisecond} {
			start := clock()
			s.pause(d)
			assert.GreaterOrEqual(t, clock()-start, d)
		}
		s.close()
	}
	new(sleeper).close()
}

func TestSleeperAllocatesNothing(t *testing.T) {
	s := new(sleeper)
	defer s.close()
	allocs.AtMost(t, 0, 100, func() { s.pause(1) })
}

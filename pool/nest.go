package pool

import (
	"reflect"
	goruntime "runtime"
)

// The functions of the callers run below frames that spell a number of their pool. So a call of
// the pool that they make is known by its goroutine, whatever context it has, and that costs
// nothing before it is asked.

// spell calls f below the frames of a number, the lowest bit first.
//
//go:noinline
func spell(number uint64, f func() error) error { return spellBit(number, f) }

func spellBit(number uint64, f func() error) error {
	switch {
	case number == 0:
		return f()
	case number%2 == 0:
		return spellZero(number/2, f)
	}
	return spellOne(number/2, f)
}

//go:noinline
func spellZero(rest uint64, f func() error) error { return spellBit(rest, f) }

//go:noinline
func spellOne(rest uint64, f func() error) error { return spellBit(rest, f) }

var spellEntry, zeroEntry, oneEntry = entry(spell), entry(spellZero), entry(spellOne)

func entry(f func(uint64, func() error) error) uintptr { return reflect.ValueOf(f).Pointer() }

// short is more than the bytes of code that each of them has. It saves a search for most frames.
const short = 4096

// spelled tells whether the goroutine is below the frames of a number.
func spelled(numbers ...uint64) bool {
	var frames [64]uintptr
	var number uint64
	for skip := 2; ; skip += len(frames) {
		n := goruntime.Callers(skip, frames[:])
		for _, pc := range frames[:n] {
			if pc-spellEntry > short && pc-zeroEntry > short && pc-oneEntry > short {
				continue
			}
			switch goruntime.FuncForPC(pc - 1).Entry() {
			case zeroEntry:
				number *= 2
			case oneEntry:
				number = 2*number + 1
			case spellEntry:
				for _, of := range numbers {
					if number == of {
						return true
					}
				}
				number = 0
			}
		}
		if n < len(frames) {
			return false
		}
	}
}

// serving tells whether a function that has a worker of the pool has brought the goroutine here.
func (p *Pool) serving() bool { return spelled(p.number) }

// within is serving, also of the functions that run on the CPU.
func (p *Pool) within() bool { return spelled(p.number, p.number+1) }

// onDevice calls a function that has a worker of the pool.
func (p *Pool) onDevice(f func() error) error { return spell(p.number, f) }

// onCPU calls a function that has none.
func (p *Pool) onCPU(f func() error) error { return spell(p.number+1, f) }

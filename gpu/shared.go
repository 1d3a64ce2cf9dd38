package gpu

import (
	"reflect"
	"sync"
	"sync/atomic"
	"unsafe"
)

// maxShared is how many variables a kernel can have in shared memory.
const maxShared = 64

// Shared is a variable in the shared memory of the block: all threads of the block get the same one. T holds
// no pointers. The variable begins with junk, as on a GPU: write before you read.
//
// Each call in the source is one variable. In a function it is one for each call of the function in the source, and in
// a loop all passes have the same. A kernel has at most 64.
func Shared[T any](t *Thread) *T {
	t.vars = true
	v, ok := t.b.vars.shared(site(), again[T]).value.(*T)
	if !ok {
		fault("gpu.Shared[%v]: the same call has another type in another thread of the block", reflect.TypeFor[T]())
	}
	return v
}

// variable is one in shared memory.
type variable struct {
	value  any // *T
	memory []byte
	fill   byte // of junk: all bits set, which is a NaN in a float; a bool has to be 0 or 1
}

// again makes a variable with junk, of the memory that an earlier block had if its type was this one.
func again[T any](old *variable) *variable {
	if old != nil {
		if _, ok := old.value.(*T); ok {
			old.junk()
			return old
		}
	}
	v := new(T)
	made := &variable{value: v, memory: unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v)), fill: 0xff}
	if plain(reflect.TypeFor[T]()) {
		made.fill = 1
	}
	made.junk()
	return made
}

// DynamicShared is the dynamic shared memory of the block, whose size the launch tells, as a slice of T.
// All calls give the same memory. T holds no pointers.
func DynamicShared[T any](t *Thread) []T {
	t.vars = true
	var zero T
	size := unsafe.Sizeof(zero)
	if size == 0 {
		return nil
	}
	plain(reflect.TypeFor[T]())
	memory := t.b.vars.dynamic()
	if len(memory) == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&memory[0])), uintptr(t.b.vars.bytes)/size)
}

// vars are the variables of one block in shared memory. The first thread that asks for one makes it.
type vars struct {
	sites [maxShared]atomic.Uint64 // the calls that have a variable, those of earlier blocks too; 0 is none
	made  [maxShared]atomic.Pointer[variable]
	old   [maxShared]*variable // of an earlier block; threads that are goroutines have none
	once  sync.Once
	words []Uint4 // the dynamic ones, at a multiple of 1,024 bytes
	bytes int
}

// reset makes all variables junk for the next block, which takes their memory.
func (v *vars) reset() {
	for n := range v.made {
		if v.sites[n].Load() == 0 {
			break
		}
		if p := v.made[n].Load(); p != nil {
			v.old[n] = p
			v.made[n].Store(nil)
		}
	}
	words := v.words
	v.once, v.words = sync.Once{}, nil
	if words != nil {
		v.once.Do(func() { v.words = words; v.junk() })
	}
}

// shared returns the variable of a call.
func (v *vars) shared(site uint64, make func(old *variable) *variable) *variable {
	n := 0
	for ; ; n++ {
		if n == maxShared {
			fault("gpu.Shared: a kernel has more than %d variables in shared memory", maxShared)
		}
		s := v.sites[n].Load()
		if s == site || s == 0 && v.sites[n].CompareAndSwap(0, site) || v.sites[n].Load() == site {
			break
		}
	}
	p := v.made[n].Load()
	if p == nil {
		made := make(v.old[n])
		if v.made[n].CompareAndSwap(nil, made) {
			return made
		}
		p = v.made[n].Load()
	}
	return p
}

// dynamic returns the dynamic shared memory.
func (v *vars) dynamic() []Uint4 {
	v.once.Do(func() {
		const align = 1024 // of tiles
		n := (v.bytes + 15) / 16
		words := make([]Uint4, n+align/16)
		skip := -uintptr(unsafe.Pointer(unsafe.SliceData(words))) & (align - 1)
		v.words = words[skip/16:][:n:n]
		v.junk()
	})
	return v.words
}

// junk fills the dynamic memory.
func (v *vars) junk() {
	for i := range v.words {
		v.words[i] = Uint4{^uint32(0), ^uint32(0), ^uint32(0), ^uint32(0)}
	}
}

// junk fills the memory with what is no zero.
func (v *variable) junk() {
	if len(v.memory) == 0 {
		return
	}
	v.memory[0] = v.fill
	for done := 1; done < len(v.memory); done *= 2 {
		copy(v.memory[done:], v.memory[:done])
	}
}

// plain panics if a type holds what a GPU has no use for, and reports whether it holds a bool.
func plain(t reflect.Type) (bools bool) {
	switch t.Kind() {
	case reflect.Bool:
		return true
	case reflect.Array:
		return plain(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			bools = plain(t.Field(i).Type) || bools
		}
		return bools
	}
	if k := t.Kind(); k >= reflect.Int && k <= reflect.Float64 {
		return false
	}
	fault("gpu: shared memory cannot hold %v: numbers, bools, and arrays and structs of them", t)
	return false
}

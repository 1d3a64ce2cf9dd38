package refs

import (
	"crypto/rand"
	"crypto/subtle"
	"os"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/purecuda/purecuda/driver"
)

// Resolver finds Refs by their tokens. A process has one, which its States share. It is
// safe for concurrent use.
type Resolver struct {
	node    string
	process [16]byte
	ids     atomic.Uint64 // of memory

	mu    sync.Mutex
	named map[uint64][]*named // by the number of the memory
}

// named is a Ref that has a token. It does not keep the Ref from being forgotten.
type named struct {
	token   Token
	element reflect.Type
	handle  weak.Pointer[handle]
	core    span
}

// span is the part of the memory that the Ref is.
type span struct {
	state  *State
	stamp  uint64
	offset uint64
	n      int
	bytes  uint64
}

// NewResolver makes a resolver with a process number of its own. node says in tokens where
// the process runs; "" is the name of the host.
func NewResolver(node string) *Resolver {
	if node == "" {
		node, _ = os.Hostname() // tokens are resolved by their process
	}
	r := &Resolver{node: node[:min(len(node), maxNodeBytes)], named: map[uint64][]*named{}}
	_, _ = rand.Read(r.process[:]) // never fails
	return r
}

func (r *Resolver) nextID() uint64 { return r.ids.Add(1) }

// Token returns the name by which [Resolve] finds these elements as long as the Ref is open,
// the same at every call. The error is that of [Ref.Access].
func (r *Ref[T]) Token() (Token, error) {
	c := r.Core()
	if _, err := c.Acquire(); err != nil { // so that it is not closed meanwhile
		return Token{}, err
	}
	defer c.Release()
	return c.state.resolver.name(c, reflect.TypeFor[T]())
}

// name makes the token of a Core, which is leased, or returns the one that it has.
func (r *Resolver) name(c *Core, element reflect.Type) (Token, error) {
	m := c.handle.memory
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := c.token.Load(); t != nil {
		return *t, nil
	}
	m.named.Store(true) // before looking whether it is closed: closing looks at this after
	if c.handle.closed.Load() {
		return Token{}, c.state.errorf(driver.ErrClosed, "the Ref was closed before")
	}
	t := Token{Node: r.node, Device: c.state.device, Buffer: m.id, Generation: m.generation, Process: r.process}
	_, _ = rand.Read(t.Secret[:])
	r.named[m.id] = append(r.named[m.id], &named{
		token: t, element: element, handle: weak.Make(c.handle),
		core: span{state: c.state, stamp: c.stamp, offset: uint64(c.ptr - m.block.Ptr()), n: c.n, bytes: c.bytes},
	})
	c.token.Store(&t)
	return t, nil
}

// sweep takes out the names of handles that are closed or forgotten.
func (r *Resolver) sweep(m *memory) {
	if !m.named.Load() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.named[m.id] = slices.DeleteFunc(r.named[m.id], func(n *named) bool { return n.open() == nil })
	if len(r.named[m.id]) == 0 {
		delete(r.named, m.id)
	}
}

// forget takes out all names of memory that is given back.
func (r *Resolver) forget(m *memory) {
	if !m.named.Load() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.named, m.id)
}

// open is the handle, or nil if there is none any more.
func (n *named) open() *handle {
	if h := n.handle.Value(); h != nil && !h.closed.Load() {
		return h
	}
	return nil
}

// Resolve returns another reference to the elements that a token names, which has to be
// closed. Errors: driver.ErrRefStale for a token of another process or of a Ref that was
// closed, for one that was made up, and for memory that must not be used any more, with the
// reasons of [Ref.Access]; driver.ErrDeviceLost; driver.ErrInvalidArgument if the elements
// are of another type.
func Resolve[T any](r *Resolver, t Token) (*Ref[T], error) {
	if r == nil {
		return nil, driver.Errorf(driver.ErrInvalidArgument, "resolve a token without a Resolver")
	}
	found := new(Ref[T])
	if err := r.resolve(&found.core, t, reflect.TypeFor[T]()); err != nil {
		return nil, err
	}
	return found, nil
}

func (r *Resolver) resolve(c *Core, t Token, element reflect.Type) error {
	if t.Process != r.process || t.Node != r.node {
		return driver.Errorf(driver.ErrRefStale, "the token is of another process")
	}
	n := r.find(t)
	if n == nil {
		return driver.Errorf(driver.ErrRefStale, "the token names no Ref that is open")
	}
	if n.element != element {
		return driver.Errorf(driver.ErrInvalidArgument, "the token names elements of %v, not %v", n.element, element)
	}
	h := n.open()
	if h == nil {
		return driver.Errorf(driver.ErrRefStale, "the token names no Ref that is open")
	}
	of := &Core{state: n.core.state, stamp: n.core.stamp, handle: h, n: n.core.n, bytes: n.core.bytes}
	if _, err := of.Acquire(); err != nil {
		return err
	}
	defer of.Release()
	of.ptr = h.memory.block.Ptr() + driver.DevicePtr(n.core.offset)
	c.retain(of)
	return nil
}

// find looks a token up. How long it takes tells nothing about the secret.
func (r *Resolver) find(t Token) (found *named) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.named[t.Buffer] {
		if subtle.ConstantTimeCompare(n.token.Secret[:], t.Secret[:]) == 1 && n.token == t {
			found = n
		}
	}
	return found
}

package callsite

import (
	"runtime"
	"slices"
	"sync"
)

// depth is how many calls of a stack are kept.
const depth = 32

// waiting are the stacks of those who wait for a function of Carry, by a number that is on the stack of the function.
var waiting struct {
	mu     sync.Mutex
	stacks [][]uintptr // nil where the number is free
}

// Carry makes a function that is to run on another goroutine while the caller waits. For [Callers] it is called by the caller
// of Carry, so that what it makes has the line of the program that wanted it.
func Carry(f func()) func() {
	stack := make([]uintptr, depth)
	stack = stack[:Callers(1, stack)]
	return func() {
		number := wait(stack)
		defer leave(number)
		enter(number, f)
	}
}

// wait takes the lowest number that is free: few frames encode it.
func wait(stack []uintptr) uint64 {
	waiting.mu.Lock()
	defer waiting.mu.Unlock()
	free := slices.IndexFunc(waiting.stacks, func(s []uintptr) bool { return s == nil })
	if free < 0 {
		free = len(waiting.stacks)
		waiting.stacks = append(waiting.stacks, nil)
	}
	waiting.stacks[free] = stack
	return uint64(free)
}

func leave(number uint64) {
	waiting.mu.Lock()
	defer waiting.mu.Unlock()
	waiting.stacks[number] = nil
}

// Callers is runtime.Callers, and goes on with the stack of who waits for the function. Skip 0 is the caller of Callers.
func Callers(skip int, stack []uintptr) int {
	n := runtime.Callers(skip+2, stack)
	if n == len(stack) {
		return n
	}
	if number, found := marked(stack[:n]); found {
		waiting.mu.Lock()
		defer waiting.mu.Unlock()
		n += copy(stack[n:], waiting.stacks[number])
	}
	return n
}

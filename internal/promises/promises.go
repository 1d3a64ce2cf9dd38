// Package promises is the table of what this project promises at each of its doors: a call or a program through which work
// comes. Tests hold every cell. docs/promises.md is written from the table.
//
// A new door is a row in doors.go and its cells in a test: [Test] fails while a cell has neither a test nor a reason.
package promises

import (
	"maps"
	"slices"
	"testing"
)

// Promise is a column of the table.
type Promise struct {
	Name string // of its tests
	Text string // what a user relies on
}

// Door is a row of the table.
type Door struct {
	Name string
	// Calls are the exported names that are this door, as api/purecuda.txt has them. A program has none.
	Calls []string
	// Folder of the program.
	Folder string
	// Test is the file with the tests of its cells.
	Test string
	// Not has the promises that make no sense at the door, each with the reason.
	Not map[string]string
	// Broken has the promises that the door does not hold yet, each with what happens.
	Broken map[string]string
}

// Test runs the tests of a door, one for each promise that makes sense there.
func Test(t *testing.T, door string, cells map[string]func(t *testing.T)) {
	at := slices.IndexFunc(Doors, func(d Door) bool { return d.Name == door })
	if at < 0 {
		t.Fatalf("%s is no row of internal/promises/doors.go", door)
	}
	d := Doors[at]
	for _, p := range Promises {
		cell, reason, broken := cells[p.Name], d.Not[p.Name], d.Broken[p.Name]
		switch {
		case cell == nil && reason == "" && broken == "":
			t.Errorf("%s: promise %q has no test, and no reason in internal/promises/doors.go", door, p.Name)
		case cell != nil && reason+broken != "":
			t.Errorf("%s: promise %q has a test, and a reason in internal/promises/doors.go not to have one: %s%s", door, p.Name, reason, broken)
		case cell != nil:
			t.Run(p.Name, cell)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(cells)) {
		if !slices.ContainsFunc(Promises, func(p Promise) bool { return p.Name == name }) {
			t.Errorf("%s: %q is no promise", door, name)
		}
	}
}

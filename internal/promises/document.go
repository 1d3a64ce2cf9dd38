package promises

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Markdown is the part of docs/promises.md that is written from the table.
func Markdown() string {
	var b strings.Builder
	b.WriteString("| promise | what you rely on |\n|---|---|\n")
	for _, p := range Promises {
		fmt.Fprintf(&b, "| `%s` | %s |\n", p.Name, p.Text)
	}
	b.WriteString("\n## The doors\n\nA `+` is a test. A number is a reason, below, why the promise makes no sense at the door. A `!` is a promise that the door does not hold yet.\n\n")
	b.WriteString("| door |")
	for _, p := range Promises {
		fmt.Fprintf(&b, " %s |", p.Name)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(Promises)) + "\n")
	var reasons []string
	var broken []string
	for _, d := range Doors {
		fmt.Fprintf(&b, "| %s |", d.Name)
		for _, p := range Promises {
			cell := "+"
			if reason := d.Not[p.Name]; reason != "" {
				at := slices.Index(reasons, reason)
				if at < 0 {
					at, reasons = len(reasons), append(reasons, reason)
				}
				cell = fmt.Sprint(at + 1)
			}
			if what := d.Broken[p.Name]; what != "" {
				cell = "!"
				broken = append(broken, fmt.Sprintf("- %s, `%s`: %s", d.Name, p.Name, what))
			}
			fmt.Fprintf(&b, " %s |", cell)
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
	for i, reason := range reasons {
		fmt.Fprintf(&b, "%d. %s\n", i+1, reason)
	}
	if len(broken) > 0 {
		fmt.Fprintf(&b, "\nNot held yet:\n\n%s\n", strings.Join(broken, "\n"))
	}
	b.WriteString("\nCalls that are no door of their own:\n\n")
	for _, reason := range slices.Sorted(maps.Keys(NoDoors)) {
		var names []string
		for _, name := range NoDoors[reason] {
			names = append(names, "`"+name+"`")
		}
		fmt.Fprintf(&b, "- %s %s.\n", reason, strings.Join(names, ", "))
	}
	return b.String()
}

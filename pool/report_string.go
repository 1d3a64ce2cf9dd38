package pool

import (
	"fmt"
	"strings"
)

// String is the report in a line: where the work was done and how long that took, and how many items each device did.
// Then come the reason why not all devices took part, and the devices that were left out.
func (r Report) String() string {
	if r.Tiles == nil {
		return r.request()
	}
	var all, done int
	by := map[string]int{}
	var order []string
	for _, t := range r.Tiles {
		all += t.Len()
		if !t.Done {
			continue
		}
		done += t.Len()
		who := t.who()
		if by[who] == 0 {
			order = append(order, who)
		}
		by[who] += t.Len()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d items on the %v in %v", done, all, r.Where, r.Wall)
	if r.Where == OnGPU {
		for _, who := range order {
			fmt.Fprintf(&b, ", %d on %s", by[who], who)
		}
	}
	b.WriteString(because(r.Reason, r.Err))
	for _, d := range r.Skipped {
		fmt.Fprintf(&b, ", without device %d: %s", d.Ordinal, line(d.Err))
	}
	return b.String()
}

// request is the report of a call that was not cut into tiles.
func (r Report) request() string {
	var b strings.Builder
	switch r.Where {
	case OnCPU:
		fmt.Fprintf(&b, "on the cpu in %v", r.Wall)
	case OnGPU:
		fmt.Fprintf(&b, "on %s, stream %d, in %v", TileReport{Device: r.Device, Host: r.Host}.who(), r.Stream, r.Wall)
	default:
		b.WriteString("nothing was done")
	}
	if r.Tries > 1 {
		fmt.Fprintf(&b, ", %d tries", r.Tries)
	}
	if r.Waited > 0 {
		fmt.Fprintf(&b, ", waited %v", r.Waited)
	}
	return b.String() + because(r.Reason, r.Err)
}

func because(reason Reason, why error) string {
	switch {
	case why != nil:
		return fmt.Sprintf(" (%s: %s)", reason, line(why))
	case reason != "":
		return fmt.Sprintf(" (%s)", reason)
	}
	return ""
}

// line is an error in one line: that of errors.Join has several.
func line(err error) string { return strings.ReplaceAll(fmt.Sprint(err), "\n", "; ") }

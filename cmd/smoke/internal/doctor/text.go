package doctor

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/cleantext"
)

// WriteText writes the report for people: a section for each subject, aligned, and the
// problems last, where the eye is.
func (r *Report) WriteText(out io.Writer) error {
	var b bytes.Buffer
	section := func(name string, fill func(row rows)) {
		if b.Len() > 0 {
			b.WriteString("\n")
		}
		b.WriteString(name + "\n")
		var table bytes.Buffer
		w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
		fill(func(cells ...string) {
			for i := range cells {
				cells[i] = cleantext.String(cells[i])
			}
			_, _ = fmt.Fprintf(w, "  %s\n", strings.Join(cells, "\t")) // a buffer takes everything
		})
		_ = w.Flush()
		lines := strings.Split(table.String(), "\n")
		for i := range lines {
			lines[i] = strings.TrimRight(lines[i], " ") // cells at the end may be empty
		}
		b.WriteString(strings.Join(lines, "\n"))
	}
	section("process", r.processRows)
	section("environment", r.environmentRows)
	section("machine", r.machineRows)
	section("device files", r.fileRows)
	section("driver", r.driverRows)
	section("nvrtc", r.nvrtcRows)
	section("devices", r.deviceRows)
	if r.Health != nil {
		section("health", r.healthRows)
	}
	if r.Libraries != nil {
		section("libraries", r.libraryRows)
	}
	section("cache", r.cacheRows)
	b.WriteString("\n")
	_, err := out.Write(append(b.Bytes(), r.problemText()...))
	return err
}

// WriteProblems writes the problems only.
func (r *Report) WriteProblems(out io.Writer) error {
	_, err := io.WriteString(out, r.problemText())
	return err
}

func (r *Report) problemText() string {
	if len(r.Problems) == 0 {
		return "no problems\n"
	}
	var b strings.Builder
	b.WriteString("problems\n")
	for i, p := range r.Problems {
		fmt.Fprintf(&b, "  %d. %s: %s -> %s\n", i+1, p.About, cleantext.String(p.Problem), cleantext.String(p.Do))
	}
	return b.String()
}

// rows takes the cells of a row.
type rows = func(cells ...string)

func (r *Report) processRows(row rows) {
	row("smoke", r.Build.String())
	started := map[string]string{
		"ordinary": "by the system, with a loader for libraries",
		"hosted":   "through the system's loader, which the program brought in itself",
		"static":   "without a loader",
	}[r.Process.Start]
	if r.Process.Reason != "" {
		started += ": " + r.Process.Reason
	}
	row("started", started)
	if r.Process.UID >= 0 {
		row("user", fmt.Sprintf("uid %d, gid %d, groups %v", r.Process.UID, r.Process.GID, r.Process.Groups))
	}
	row("policy", orElse(r.Policy.Policy, r.Policy.Reason)+" ("+r.Policy.From+")")
}

func (r *Report) environmentRows(row rows) {
	for _, v := range r.Environment {
		switch {
		case !v.Set && v.Default != "":
			row(v.Name, "not set, so "+v.Default)
		case !v.Set:
			row(v.Name, "not set")
		case v.Value == "":
			row(v.Name, "set, and empty")
		default:
			row(v.Name, v.Value)
		}
	}
}

func (r *Report) machineRows(row rows) {
	m := r.Machine
	row("kernel", orElse(m.Kernel, "unknown"))
	row("container", orElse(strings.Join(m.Container, ", "), "no sign of one"))
	row("WSL", map[bool]string{true: "yes", false: "no"}[m.WSL])
	row("host memory", "RLIMIT_MEMLOCK "+limitText(m.Memory.Locked)+", control group "+limitText(m.Memory.Group))
	row("NVIDIA GPUs", orElse(strings.Join(m.PCI, ", "), "none on the PCI bus"))
}

// limitText is a limit of memory, in words.
func limitText(limit *uint64) string {
	if limit == nil {
		return "without limit"
	}
	return fmt.Sprintf("%d KiB", *limit>>10)
}

func (r *Report) fileRows(row rows) {
	for _, f := range r.Files {
		switch {
		case !f.Exists:
			row(f.Path, "not there", "", "")
		case f.Opens:
			row(f.Path, "opens", f.Owner, f.Content)
		default:
			row(f.Path, "does not open: "+f.Reason, f.Owner, "")
		}
	}
	if len(r.Files) == 0 {
		row("none on this system")
	}
}

func stateOf(outcome Outcome, f *Failure, ended string) string {
	text := string(outcome)
	if f != nil {
		text += ": " + f.String()
	}
	if ended != "" {
		text += ": the probe " + ended
	}
	return text
}

// candidateRows has a row for each candidate and for each file that it may mean. Those that
// were not tried are counted.
func candidateRows(list []Candidate, row rows) {
	head := "candidates"
	untried := 0
	for _, c := range list {
		wrong := slices.ContainsFunc(c.Files, func(f LibraryFile) bool { return f.Wrong != "" })
		if c.Reason == notTried && !wrong {
			untried++
			continue
		}
		state := orElse(c.Reason, "not known")
		if c.Taken {
			state = "taken"
		}
		for _, f := range c.Files {
			if f.Path == c.Name && f.Wrong != "" {
				state += ": it " + f.Wrong
			}
		}
		row(head, c.Name, state)
		head = ""
		for _, f := range c.Files {
			if f.Path != c.Name && !(c.Taken && f.Wrong == "") {
				row(head, "  "+f.Path, orElse(f.Wrong, "is there"))
			}
		}
	}
	if untried > 0 {
		row(head, fmt.Sprintf("%d that were not tried", untried))
	}
}

// note is a row, if there is something to tell.
func note(row rows, name, text string) {
	if text != "" {
		row(name, text)
	}
}

func (r *Report) driverRows(row rows) {
	d := r.Driver
	failure := d.Failure
	if d.Outcome == Absent && d.Taken == "" && failure != nil && len(d.Candidates) > 0 && r.Process.Loader {
		failure = &Failure{Kind: failure.Kind, Detail: "no CUDA driver library"} // the candidates are below
	}
	row("state", stateOf(d.Outcome, failure, d.Ended))
	note(row, "library", withFile(d.Taken, d.File))
	note(row, "CUDA", d.CUDA)
	note(row, "release", d.Release)
	note(row, "kernel module", d.KernelRelease)
	note(row, "lacks", few(d.Missing))
	candidateRows(d.Candidates, row)
}

func (r *Report) nvrtcRows(row rows) {
	n := r.NVRTC
	failure := n.Failure
	if n.Outcome == Absent && failure != nil {
		failure = &Failure{Kind: failure.Kind, Detail: "no NVRTC to compile CUDA C++ with"} // the candidates are below
	}
	row("state", stateOf(n.Outcome, failure, n.Ended))
	note(row, "library", withFile(n.Taken, n.File))
	note(row, "version", n.CUDA)
	if len(n.Archs) > 0 {
		note(row, "compiles for", strings.Trim(fmt.Sprint(n.Archs), "[]"))
	}
	if n.PTX != "" {
		text := n.PTX
		if v := r.Driver.Version; v != 0 && n.Version > v {
			text += fmt.Sprintf(", which driver %s cannot read", driver.Version(v))
		} else if v != 0 {
			text += fmt.Sprintf(", which driver %s reads", driver.Version(v))
		}
		row("writes PTX", text)
	}
	note(row, "lacks", few(n.Missing))
	for _, c := range r.Compiling {
		row(fmt.Sprintf("for device %d", c.Device), strings.TrimPrefix(strings.TrimSuffix(strings.TrimSpace(c.Kind+" "+c.Target)+": "+c.Reason, ": "), ": "))
	}
	candidateRows(n.Candidates, row)
}

func withFile(taken, file string) string {
	if file == "" || file == taken {
		return taken
	}
	return taken + " (" + file + ")"
}

// few names the first of a list.
func few(list []string) string {
	const most = 3
	if len(list) <= most {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), len(list)-most)
}

func (r *Report) deviceRows(row rows) {
	for _, d := range r.Devices {
		memory := fmt.Sprintf("%.1f GiB", gib(d.TotalBytes))
		if d.FreeBytes > 0 {
			memory += fmt.Sprintf(", %.1f free", gib(d.FreeBytes))
		}
		state := "usable"
		if !d.Usable {
			state = "not usable: " + d.Reason
		}
		row(fmt.Sprint(d.Ordinal), d.Name, d.ComputeCapability, d.PCIBusID, memory, state)
	}
	for _, d := range r.Devices {
		if f := d.Facts; f != nil {
			row(fmt.Sprint(d.Ordinal), f.text(d.SMs))
		}
	}
	if len(r.Devices) == 0 {
		row("none")
	}
}

// text is the facts in one line.
func (f *Facts) text(sms int) string {
	parts := []string{
		fmt.Sprintf("%d SMs with %d registers and %d threads", sms, f.RegistersPerSM, f.MaxThreadsPerSM),
		fmt.Sprintf("%d KiB shared by a block", f.SharedPerBlock>>10),
		fmt.Sprintf("L2 %.0f MiB", float64(f.L2Bytes)/(1<<20)),
		fmt.Sprintf("bus of %d bits", f.MemoryBusBits),
		"compute mode " + strings.TrimPrefix(f.ComputeMode, "compute mode "),
	}
	parts = append(parts, f.Features...)
	if len(f.Links) > 0 {
		parts = append(parts, "links to "+strings.Trim(fmt.Sprint(f.Links), "[]"))
	}
	return strings.Join(parts, ", ")
}

func gib(bytes uint64) float64 { return float64(bytes) / (1 << 30) }

func (r *Report) cacheRows(row rows) {
	c := r.Cache
	switch c.State {
	case "off":
		row("state", "off, as asked")
	case "unusable":
		row("state", "unusable: "+c.Reason)
		note(row, "directory", c.Directory)
	default:
		row("directory", c.Directory)
		row("size", fmt.Sprintf("%d entries, %.1f of %.1f MiB", c.Entries, float64(c.Bytes)/(1<<20), float64(c.LimitBytes)/(1<<20)))
	}
}

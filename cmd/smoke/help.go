package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/purecuda/purecuda/cmd/smoke/internal/cli"
)

// printHelp explains a command, in lines that fit the terminal.
func (a *app) printHelp(cmd *cli.Command) {
	var b strings.Builder
	width := a.stdout.width()
	section := func(name string) { b.WriteString("\n" + name + ":\n") }
	table := func(rows [][2]string) {
		longest := 0
		for _, row := range rows {
			longest = max(longest, utf8.RuneCountInString(row[0]))
		}
		text := longest + 4
		for _, row := range rows {
			if text > width/2 { // no room beside
				b.WriteString("  " + row[0] + "\n" + wrap(row[1], 6, width))
				continue
			}
			b.WriteString(fmt.Sprintf("  %-*s", text-2, row[0]) + strings.TrimLeft(wrap(row[1], text, width), " "))
		}
	}
	b.WriteString(wrap(cmd.FullName()+" - "+cmd.Usage, 0, width))
	section("USAGE")
	usage := cmd.UsageText
	if usage == "" {
		usage = cmd.FullName() + " [options]"
	}
	b.WriteString(wrap(usage, 2, width))
	if cmd.Description != "" {
		b.WriteString("\n" + wrap(cmd.Description, 0, width))
	}
	if commands := visible(cmd); len(commands) > 0 {
		section("COMMANDS")
		var rows [][2]string
		for _, c := range commands {
			rows = append(rows, [2]string{c.Name, c.Usage})
		}
		table(rows)
	}
	section("OPTIONS")
	var rows [][2]string
	for _, f := range flagsOf(cmd) {
		rows = append(rows, [2]string{f.spelling(), f.usage()})
	}
	table(rows)
	_, _ = io.WriteString(a.stdout, b.String()) // stdout keeps the error
}

// wrap indents text and breaks its lines between words, so that none is longer than width. A line
// of text that begins with a space stays as it is.
func wrap(text string, indent, width int) string {
	var b strings.Builder
	margin := strings.Repeat(" ", indent)
	for paragraph := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(paragraph, " ") {
			b.WriteString(margin + paragraph + "\n")
			continue
		}
		used := 0
		for word := range strings.FieldsSeq(paragraph) {
			n := utf8.RuneCountInString(word)
			switch {
			case used == 0:
				b.WriteString(margin)
				used = indent
			case used+1+n > width:
				b.WriteString("\n" + margin)
				used = indent
			default:
				b.WriteString(" ")
				used++
			}
			b.WriteString(word)
			used += n
		}
		b.WriteString("\n")
	}
	return b.String()
}

// helpCommand explains the command that its arguments name.
func (a *app) helpCommand() *cli.Command {
	return &cli.Command{
		Name: "help", Usage: "explain a command", UsageText: "smoke help [COMMAND]",
		Action: func(_ context.Context, cmd *cli.Command) error {
			if err := refuseFlags(cmd); err != nil {
				return err
			}
			about := cmd.Root()
			for _, name := range cmd.Args {
				found := about.Command(name)
				if found == nil {
					return unknownCommand(about, name)
				}
				about = found
			}
			a.printHelp(about)
			return nil
		},
	}
}

// unknownCommand is the error for an argument that names no command of cmd.
func unknownCommand(cmd *cli.Command, name string) error {
	what := fmt.Sprintf("%q is no command of %s", name, cmd.FullName())
	for _, c := range visible(cmd) {
		if near(c.Name, name) {
			return usageError("%s; did you mean %s?", what, c.FullName())
		}
	}
	if cmd.Root() == cmd {
		what += "; --" + flagInput + " names what to hash"
	}
	return usageError("%s", what)
}

// visible are the commands of cmd that people use.
func visible(cmd *cli.Command) []*cli.Command {
	return slices.DeleteFunc(slices.Clone(cmd.Commands), func(c *cli.Command) bool { return c.Hidden })
}

// near reports whether two words differ in at most two letters, and in half of them at most.
func near(a, b string) bool {
	if len(b) > len(a)+2 { // whatever it is, it may be long
		return false
	}
	row := make([]int, len(b)+1) // row[j] is the distance of what was seen of a to b[:j]
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)] <= 2 && 2*row[len(b)] <= len(a)
}

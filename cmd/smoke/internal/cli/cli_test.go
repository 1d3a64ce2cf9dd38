package cli_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/cmd/smoke/internal/cli"
)

// program has two commands below it, one of them with a command of its own.
func program() *cli.Command {
	return &cli.Command{Name: "p",
		Flags: []*cli.Flag{{Names: []string{"out", "o"}, Default: "here"}, {Names: []string{"quiet"}, Bool: true}},
		Commands: []*cli.Command{
			{Name: "list", Flags: []*cli.Flag{{Names: []string{"count"}, Default: "3"}}},
			{Name: "cache", Commands: []*cli.Command{{Name: "clear"}}},
		}}
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		args        []string
		name, out   string
		quiet, set  bool
		left        []string
		failsWith   string
		countOfList string
	}{
		{args: nil, name: "p", out: "here"},
		{args: []string{"--out", "there"}, name: "p", out: "there", set: true},
		{args: []string{"-out=there"}, name: "p", out: "there", set: true},
		{args: []string{"-o", "--quiet"}, name: "p", out: "--quiet", set: true},
		{args: []string{"--out="}, name: "p", out: "", set: true},
		{args: []string{"--out", "a=b", "--out=c=d"}, name: "p", out: "c=d", set: true},
		{args: []string{"--quiet=false"}, name: "p", out: "here"},
		{args: []string{"--quiet=1", "list"}, name: "p list", out: "here", quiet: true, countOfList: "3"},
		{args: []string{"list", "--count", "-5", "--quiet"}, name: "p list", out: "here", quiet: true, countOfList: "-5"},
		{args: []string{"list", "x", "--count=4", "list"}, name: "p list", out: "here", left: []string{"x", "list"}, countOfList: "4"},
		{args: []string{"cache", "--quiet", "clear"}, name: "p cache clear", out: "here", quiet: true},
		{args: []string{"x", "cache"}, name: "p", out: "here", left: []string{"x", "cache"}},
		{args: []string{"--", "list", "--quiet"}, name: "p", out: "here", left: []string{"list", "--quiet"}},
		{args: []string{"-", "-1", "-1.5", ""}, name: "p", out: "here", left: []string{"-", "-1", "-1.5", ""}},
		{args: []string{"--count", "1"}, name: "p", out: "here", failsWith: "unknown flag --count"},
		{args: []string{"list", "-z"}, name: "p list", out: "here", failsWith: "unknown flag -z", countOfList: "3"},
		{args: []string{"---out"}, name: "p", out: "here", failsWith: "unknown flag ---out"},
		{args: []string{"--out"}, name: "p", out: "here", failsWith: "flag needs an argument: --out"},
		{args: []string{"--quiet=maybe"}, name: "p", out: "here", failsWith: `--quiet takes true or false, not "maybe"`},
	} {
		cmd, err := program().Parse(c.args)
		if c.failsWith == "" {
			require.NoError(t, err, c.args)
		} else {
			require.EqualError(t, err, c.failsWith, c.args)
		}
		assert.Equal(t, c.name, cmd.FullName(), c.args)
		assert.Equal(t, "p", cmd.Root().Name)
		assert.Equal(t, c.out, cmd.String("out"), c.args)
		assert.Equal(t, c.set, cmd.IsSet("out"), c.args)
		assert.Equal(t, c.set, cmd.Flag("o").IsSet(), c.args)
		assert.Equal(t, c.quiet, cmd.Bool("quiet"), c.args)
		assert.Equal(t, c.left, cmd.Args, c.args)
		if c.countOfList != "" {
			assert.Equal(t, c.countOfList, cmd.String("count"), c.args)
		}
	}
}

package main

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		text          string
		indent, width int
		want          string
	}{
		{"one two three", 0, 80, "one two three\n"},
		{"one two three", 0, 7, "one two\nthree\n"},
		{"one two three", 2, 9, "  one two\n  three\n"},
		{"é é é", 0, 3, "é é\né\n"},
		{"unbreakable word", 2, 5, "  unbreakable\n  word\n"},
		{"a\n\n  as it is, whatever\nb", 1, 5, " a\n\n   as it is, whatever\n b\n"},
		{"", 4, 10, "\n"},
	} {
		assert.Equal(t, c.want, wrap(c.text, c.indent, c.width))
	}
}

// Help fits the terminal, and no word of it is cut.
func TestHelpFits(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"help"}, {"bench", "--help"}, {"help", "doctor"}, {"help", "cache"}, {"help", "cache", "clear"}, {"help", "help"}} {
		c := runWith(t, absent, args...)
		require.Zero(t, c.code)
		for line := range strings.Lines(c.stdout) {
			assert.LessOrEqual(t, len(strings.TrimRight(line, "\n")), 80, line)
		}
		for _, width := range []int{40, 60, 132} {
			var narrow strings.Builder
			a := &app{stdout: &output{Writer: &narrow, columns: width}}
			require.Zero(t, a.run(t.Context(), append([]string{"smoke"}, args...)))
			for line := range strings.Lines(narrow.String()) {
				assert.LessOrEqual(t, len(strings.TrimRight(line, "\n")), width, line)
			}
			assert.Equal(t, strings.Fields(c.stdout), strings.Fields(narrow.String()))
		}
	}
}

var optionLine = regexp.MustCompile(`(?m)^  (--[a-z-]+)`)

// optionsOf are the flags in the help of a command.
func optionsOf(t *testing.T, command string) (names []string) {
	c := runWith(t, absent, append(strings.Fields(command), "--help")...)
	require.Zero(t, c.code)
	for _, m := range optionLine.FindAllStringSubmatch(c.stdout, -1) {
		names = append(names, m[1])
	}
	return names
}

// The help of a command and its completion have the flags that it takes, and no other.
func TestFlagsOfCommands(t *testing.T) {
	all := optionsOf(t, "")
	assert.Contains(t, all, "--input")
	assert.Contains(t, all, "--version")
	for command, own := range map[string][]string{
		"doctor":          {"--simulate", "--json", "--quiet"},
		"cache":           {"--json"},
		"cache clear":     {"--json"},
		"help":            nil,
		"completion":      nil,
		"completion bash": nil,
		"bench": {"--only", "--time", "--count", "--max-size",
			"--devices", "--policy", "--simulate", "--json", "--quiet"},
	} {
		t.Run(command, func(t *testing.T) {
			own = append(own, "--help")
			assert.Equal(t, own, optionsOf(t, command))
			c := runWith(t, absent, append(strings.Fields(command), "-", "--generate-shell-completion")...)
			var offered []string
			for line := range strings.Lines(c.stdout) {
				name, _, _ := strings.Cut(line, ":")
				offered = append(offered, name)
			}
			assert.Equal(t, own, offered)
			for _, f := range all {
				if !slices.Contains(own, f) {
					c := runWith(t, absent, append(strings.Fields(command), f+"=1")...)
					assert.Equal(t, exitUsage, c.code, "%s %s: %s", command, f, c.stderr)
				}
			}
		})
	}
}

func TestHelpListsAllCommands(t *testing.T) {
	text := runWith(t, absent, "--help").stdout
	for _, name := range []string{"bench", "cache", "doctor", "help", "completion"} {
		assert.Regexp(t, "(?m)^  "+name+" ", text)
	}
	assert.NotContains(t, text, "probe")
	assert.Equal(t, text, runWith(t, absent, "help").stdout)
	for _, command := range []string{"bench", "cache", "cache clear", "doctor", "completion", "completion zsh"} {
		want := runWith(t, absent, append(strings.Fields(command), "--help")...).stdout
		assert.NotEmpty(t, want)
		assert.Equal(t, want, runWith(t, absent, append([]string{"help"}, strings.Fields(command)...)...).stdout, command)
	}
}

func TestCompletionOfWords(t *testing.T) {
	complete := func(args ...string) string {
		return runWith(t, absent, append(args, "--generate-shell-completion")...).stdout
	}
	assert.Regexp(t, "(?m)^completion:", complete())
	assert.Contains(t, complete("completion"), "bash:")
	assert.Equal(t, "--input:hash the file or folder at PATH (default: this program)\n", complete("--inp"))
	assert.Contains(t, complete("--ver"), "--verify-seed:")
	assert.Empty(t, complete("--input"), "the shell offers files")
	assert.Empty(t, complete("bench", "--time"))
	assert.Empty(t, complete("doctor", "--inp"))
}

// Bash takes the script and offers what is right.
func TestBashCompletes(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	out, err := exec.Command(bash, "-c", `cmd=$1; smoke() { SMOKE_TEST_AS_PROGRAM=1 "$cmd" "$@"; }
_get_comp_words_by_ref() { :; }
source <(smoke completion bash)
COMP_WORDS=(smoke doctor --); COMP_CWORD=2; cur=--
__smoke_bash_autocomplete; printf '%s\n' "${COMPREPLY[@]}"`, "bash", asProcess(t).Path).CombinedOutput()
	require.NoError(t, err, string(out))
	assert.ElementsMatch(t, []string{"--simulate", "--json", "--quiet", "--help"}, strings.Fields(string(out)))
}

func TestNear(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"doctor", "doctr", true}, {"doctor", "dcotor", true}, {"bench", "benches", true}, {"cache", "cahce", true},
		{"doctor", "doc", false}, {"help", "quux", false}, {"h", "z", false}, {"doctor", "", false}, {"cache", strings.Repeat("c", 1<<20), false},
	} {
		assert.Equal(t, c.want, near(c.a, c.b), "%s %.10s", c.a, c.b)
	}
}

// Each flag of the job that a command takes is one.
func TestTakenFlagsExist(t *testing.T) {
	all := optionsOf(t, "")
	for command, flags := range taken {
		for name := range flags {
			assert.Contains(t, all, "--"+name, command)
		}
	}
}

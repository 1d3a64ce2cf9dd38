package dlhost_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// bases are the images that the examples end in, each with the root file system that
// stands for it here.
var bases = map[string]string{
	"scratch": "empty",
	"gcr.io/distroless/static-debian12:nonroot": "empty",
	"alpine:3.22":    "musl",
	"debian:12-slim": "glibc of this machine",
}

var (
	fromLine  = regexp.MustCompile(`(?m)^FROM (?:--\S+ )?(\S+)`)
	runLine   = regexp.MustCompile(`(?m)^RUN GOARCH=\$TARGETARCH scripts/build-static (\S+) (\S+)$`)
	copyLine  = regexp.MustCompile(`(?m)^COPY --from=build (\S+) (\S+)$`)
	entryLine = regexp.MustCompile(`(?m)^ENTRYPOINT \["(\S+)"\]$`)
)

// TestDeployExamples does what each Dockerfile in examples/deploy says, with a folder in
// place of the image, since no container engine is needed for that.
func TestDeployExamples(t *testing.T) {
	needsRoot(t)
	needsSource(t)
	files, err := filepath.Glob("../../examples/deploy/Dockerfile.*")
	require.NoError(t, err)
	require.Len(t, files, len(bases))
	built := map[string]string{}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			text := string(data)
			stages := fromLine.FindAllStringSubmatch(text, -1)
			require.Len(t, stages, 2)
			name, known := bases[stages[1][1]]
			require.True(t, known, stages[1][1])
			run, copied, entry := runLine.FindStringSubmatch(text), copyLine.FindStringSubmatch(text), entryLine.FindStringSubmatch(text)
			require.True(t, run != nil && copied != nil && entry != nil)
			assert.Equal(t, run[2], copied[1], "what is copied is what was built")
			assert.Equal(t, copied[2], entry[1], "what is started is what was copied")

			needsLong(t)
			dir := t.TempDir()
			for _, r := range roots {
				if r.name == name {
					r.build(t, dir)
				}
			}
			if built[run[1]] == "" {
				path := filepath.Join(scratch, "deploy")
				cmd := exec.Command("../../scripts/build-static", run[1], path)
				cmd.Env = append(os.Environ(), "GOARCH=amd64")
				out, err := cmd.CombinedOutput()
				require.NoError(t, err, string(out))
				built[run[1]] = path
			}
			placeFile(t, built[run[1]], filepath.Join(dir, copied[2]))
			for word, where := range map[string]string{"": "without a dynamic loader", "host": map[bool]string{
				true: "libcuda.so.1: not found;", false: "without a dynamic loader"}[strings.HasPrefix(name, "glibc")]} {
				out, err := inRoot(dir, wish{word: word}, entry[1], "--input", entry[1]) // there is no /proc to find itself with
				require.NoError(t, err)
				assert.Contains(t, out, "ran on    cpu")
				// The first line is short; the whole reason is in the document.
				out, err = inRoot(dir, wish{word: word}, entry[1], "--input", entry[1], "--json")
				require.NoError(t, err)
				assert.Contains(t, out, where)
			}
		})
	}
}

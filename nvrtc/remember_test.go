package nvrtc

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
)

// paper is an NVRTC that writes PTX without reading anything.
type paper struct {
	API
	version driver.Version
	build   string
}

func (p paper) Version() (driver.Version, Result)                       { return p.version, Success }
func (p paper) Build() string                                           { return p.build }
func (p paper) SupportedArchs() ([]int, Result)                         { return []int{80, 90}, Success }
func (p paper) CreateProgram(string, string, []Header) (Handle, Result) { return 1, Success }
func (p paper) DestroyProgram(Handle) Result                            { return Success }
func (p paper) AddNameExpression(Handle, string) Result                 { return Success }
func (p paper) CompileProgram(Handle, []string, func() bool) Result     { return Success }
func (p paper) ProgramLog(Handle) (string, Result)                      { return "", Success }
func (p paper) PTX(Handle) ([]byte, Result)                             { return []byte("// by " + p.build), Success }
func (p paper) CUBIN(Handle) ([]byte, Result)                           { return []byte("by " + p.build), Success }
func (p paper) LoweredName(_ Handle, expression string) (name string, r Result) {
	return expression, Success
}

// shelf is where a process finds an NVRTC, and counts how often it loads it.
type shelf struct {
	config Config
	file   string
	api    paper
	err    error
	loads  int
}

func newShelf(t *testing.T) *shelf {
	file := filepath.Join(t.TempDir(), "libnvrtc.so.13")
	require.NoError(t, os.WriteFile(file, []byte("13.0"), 0o755))
	return &shelf{config: Config{CacheDir: t.TempDir()}, file: file, api: paper{version: 13000, build: "13.0"}}
}

// process compiles in a new process.
func (s *shelf) process(t *testing.T, source string) (*Artifact, error) {
	t.Helper()
	c, err := openCompiler(s.config, func() (API, string, error) {
		s.loads++
		return s.api, s.file, s.err
	})
	if err != nil {
		return nil, err
	}
	target, err := c.TargetFor(90, 13000)
	require.NoError(t, err)
	return c.Compile(context.Background(), Program{Source: source}, target)
}

func TestAHitLoadsNoLibrary(t *testing.T) {
	s := newShelf(t)
	first, err := s.process(t, "a")
	require.NoError(t, err)
	assert.Equal(t, "by 13.0", string(first.Code))
	assert.Equal(t, 1, s.loads)

	second, err := s.process(t, "a")
	require.NoError(t, err)
	assert.True(t, second.Cached)
	assert.Equal(t, first.Code, second.Code)
	assert.Equal(t, 1, s.loads)

	other, err := s.process(t, "b")
	require.NoError(t, err)
	assert.False(t, other.Cached)
	assert.Equal(t, 2, s.loads, "what was not compiled before is compiled")
}

// In these cases the library is looked for at once.
func TestTheLibraryIsLookedForAgain(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, s *shelf){
		"it was removed":     func(t *testing.T, s *shelf) { require.NoError(t, os.Remove(s.file)) },
		"it is another file": func(t *testing.T, s *shelf) { require.NoError(t, os.WriteFile(s.file, []byte("13.0.1"), 0o755)) },
		"it was written again": func(t *testing.T, s *shelf) {
			require.NoError(t, os.Chtimes(s.file, time.Now(), time.Now().Add(time.Hour)))
		},
		"the environment says so":  func(t *testing.T, _ *shelf) { t.Setenv(PathVariable, "/elsewhere") },
		"there is another toolkit": func(t *testing.T, _ *shelf) { t.Setenv("CUDA_HOME", "/elsewhere") },
		"the cache is off":         func(_ *testing.T, s *shelf) { s.config.CacheDir = "off" },
	} {
		t.Run(name, func(t *testing.T) {
			s := newShelf(t)
			_, err := s.process(t, "a")
			require.NoError(t, err)
			change(t, s)
			s.err = errors.New("not to be had")
			_, err = s.process(t, "a")
			assert.Equal(t, s.err, err)
			assert.Equal(t, 2, s.loads)
		})
	}
}

// The library that is found when something is compiled is another one than that of the record.
func TestTheRecordIsOfAnotherLibrary(t *testing.T) {
	s := newShelf(t)
	_, err := s.process(t, "a")
	require.NoError(t, err)
	s.api, s.file = paper{version: 13010, build: "13.1"}, s.file+".1"
	require.NoError(t, os.WriteFile(s.file, []byte("13.1"), 0o755))
	image, err := s.process(t, "a")
	require.NoError(t, err)
	assert.Equal(t, "by 13.0", string(image.Code), "what the older one has compiled is right")
	image, err = s.process(t, "b")
	require.NoError(t, err)
	assert.Equal(t, "by 13.1", string(image.Code))
	assert.Equal(t, 2, s.loads)
	image, err = s.process(t, "b")
	require.NoError(t, err)
	assert.False(t, image.Cached, "it is not filed under the older one's name")
	image, err = s.process(t, "b")
	require.NoError(t, err)
	assert.True(t, image.Cached)
}

// The library is still there, and does not load any more.
func TestTheRecordedLibraryDoesNotLoad(t *testing.T) {
	s := newShelf(t)
	_, err := s.process(t, "a")
	require.NoError(t, err)
	s.err = errors.New("not to be had")
	image, err := s.process(t, "a")
	require.NoError(t, err)
	assert.True(t, image.Cached)
	_, err = s.process(t, "b")
	assert.Equal(t, s.err, err)
}

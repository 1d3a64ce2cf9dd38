package artifact

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/internal/seeds"
)

// lines is a log whose lines can be counted.
type lines struct {
	mu   sync.Mutex
	text []string
}

func (l *lines) Enabled(context.Context, slog.Level) bool { return true }
func (l *lines) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *lines) WithGroup(string) slog.Handler            { return l }
func (l *lines) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := r.Message
	r.Attrs(func(a slog.Attr) bool { text += " " + a.String(); return true })
	l.text = append(l.text, text)
	return nil
}

// take returns the lines since the last time.
func (l *lines) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := l.text
	l.text = nil
	return text
}

func open(t *testing.T, limit int64) (*Cache, *lines) {
	log := &lines{}
	c := Open(Config{Dir: t.TempDir(), Limit: limit, Logger: slog.New(log)})
	require.Empty(t, log.take())
	require.NotEmpty(t, c.Dir())
	return c, log
}

func keyOf(n int) Key { return sha256.Sum256([]byte{byte(n), byte(n >> 8), byte(n >> 16)}) }

func path(c *Cache, key Key) string { return filepath.Join(c.Dir(), key.file()) }

func TestWhatWasPutIsGot(t *testing.T) {
	c, log := open(t, 0)
	_, ok := c.Get(keyOf(1))
	assert.False(t, ok)
	for i, content := range [][]byte{[]byte("code"), {}, bytes.Repeat([]byte{0xab}, 100_000)} {
		c.Put(keyOf(i), content)
		got, ok := c.Get(keyOf(i))
		require.True(t, ok)
		assert.True(t, bytes.Equal(content, got))
	}
	// Another process finds it.
	again := Open(Config{Dir: filepath.Dir(c.Dir())})
	got, ok := again.Get(keyOf(0))
	require.True(t, ok)
	assert.Equal(t, "code", string(got))

	assert.Equal(t, Stats{Hits: 3, Misses: 1, BytesRead: 100_004, BytesWritten: 100_004}, c.Stats())
	n, size, err := c.Size()
	require.NoError(t, err)
	assert.Equal(t, 3, n)
	assert.EqualValues(t, 100_004+3*headerSize, size)
	assert.Empty(t, log.take())
	if goruntime.GOOS != "windows" {
		info, err := os.Stat(c.Dir())
		require.NoError(t, err)
		assert.Equal(t, os.ModeDir|0o700, info.Mode())
	}
	require.NoError(t, c.Clear())
	n, size, err = c.Size()
	require.NoError(t, err)
	assert.Zero(t, n)
	assert.Zero(t, size)
}

func TestWhere(t *testing.T) {
	base := t.TempDir()
	t.Setenv(DirVariable, "")
	t.Setenv("XDG_CACHE_HOME", filepath.Join(base, "user"))
	if goruntime.GOOS == "linux" {
		assert.Equal(t, filepath.Join(base, "user", "purecuda", "artifacts"), Open(Config{}).Dir())
	}
	t.Setenv(DirVariable, filepath.Join(base, "variable"))
	assert.Equal(t, filepath.Join(base, "variable", "artifacts"), Open(Config{}).Dir())
	assert.Equal(t, filepath.Join(base, "given", "artifacts"), Open(Config{Dir: filepath.Join(base, "given")}).Dir())

	log := &lines{}
	for _, off := range []string{"off", " OFF\n"} {
		t.Setenv(DirVariable, off)
		c := Open(Config{Logger: slog.New(log)})
		assert.Empty(t, c.Dir())
		c.Put(keyOf(1), []byte("x"))
		_, ok := c.Get(keyOf(1))
		assert.False(t, ok)
		n, size, err := c.Size()
		assert.Zero(t, n)
		assert.Zero(t, size)
		assert.NoError(t, err)
		assert.NoError(t, c.Clear())
	}
	assert.Empty(t, log.take(), "off is what was asked for")
	if goruntime.GOOS == "linux" {
		t.Setenv(DirVariable, "")
		t.Setenv("XDG_CACHE_HOME", "")
		t.Setenv("HOME", "")
		assert.Empty(t, Open(Config{Logger: slog.New(log)}).Dir())
		require.Len(t, log.take(), 1)
	}
}

// TestBadEntriesAreMisses: whatever a file holds, it is a miss with one line of the log,
// and the next Put repairs it.
func TestBadEntriesAreMisses(t *testing.T) {
	c, log := open(t, 1<<20)
	good := append(encode(keyOf(1), []byte("content")), "content"...)
	flip := func(at int) []byte {
		b := bytes.Clone(good)
		b[at] ^= 1
		return b
	}
	other := append(encode(keyOf(2), []byte("content")), "content"...)
	for name, file := range map[string][]byte{
		"empty": {}, "short": good[:10], "header only": good[:headerSize], "cut": good[:len(good)-1],
		"longer": append(bytes.Clone(good), 0), "magic": flip(0), "version": flip(7), "key": flip(8), "length": flip(40),
		"digest": flip(50), "content": flip(len(good) - 1), "zeros": make([]byte, 4096), "another key": other,
		"oversized": make([]byte, 1<<19),
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.WriteFile(path(c, keyOf(1)), file, 0o600))
			before := c.Stats()
			_, ok := c.Get(keyOf(1))
			assert.False(t, ok)
			text := log.take()
			require.Len(t, text, 1)
			assert.Contains(t, text[0], keyOf(1).file())
			assert.Equal(t, before.Errors+1, c.Stats().Errors)
			assert.Equal(t, before.Misses+1, c.Stats().Misses)

			c.Put(keyOf(1), []byte("content"))
			got, ok := c.Get(keyOf(1))
			require.True(t, ok)
			assert.Equal(t, "content", string(got))
			assert.Empty(t, log.take())
		})
	}
}

func TestEntriesThatAreNoFiles(t *testing.T) {
	c, log := open(t, 0)
	require.NoError(t, os.Mkdir(path(c, keyOf(1)), 0o700))
	_, ok := c.Get(keyOf(1))
	assert.False(t, ok)
	require.Len(t, log.take(), 1)
	c.Put(keyOf(1), []byte("x")) // cannot be replaced
	require.Len(t, log.take(), 1)
	_, temporary, err := c.files()
	require.NoError(t, err)
	assert.Empty(t, temporary, "what could not be renamed is removed")

	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, encode(keyOf(2), nil), 0o600))
	if err := os.Symlink(secret, path(c, keyOf(2))); err != nil {
		t.Skip("no symbolic links: ", err)
	}
	_, ok = c.Get(keyOf(2))
	assert.False(t, ok, "links are not followed")
	require.Len(t, log.take(), 1)
	c.Put(keyOf(2), []byte("mine"))
	got, err := os.ReadFile(secret)
	require.NoError(t, err)
	assert.Len(t, got, headerSize, "nothing is written through a link")
}

func TestTooLargeIsNotKept(t *testing.T) {
	c, log := open(t, 4000)
	c.Put(keyOf(1), make([]byte, 1001))
	require.Len(t, log.take(), 1)
	n, _, _ := c.Size()
	assert.Zero(t, n)
}

func TestForeignDirectoriesAreNotUsed(t *testing.T) {
	if goruntime.GOOS == "windows" {
		t.Skip("Windows has access lists")
	}
	refused := func(t *testing.T, base, why string) {
		t.Helper()
		log := &lines{}
		c := Open(Config{Dir: base, Logger: slog.New(log)})
		assert.Empty(t, c.Dir())
		text := log.take()
		require.Len(t, text, 1)
		assert.Contains(t, text[0], why)
		c.Put(keyOf(1), []byte("x"))
		_, ok := c.Get(keyOf(1))
		assert.False(t, ok)
		assert.EqualValues(t, 1, c.Stats().Errors)
		assert.Empty(t, log.take())
	}
	t.Run("open to others", func(t *testing.T) {
		for _, mode := range []os.FileMode{0o755, 0o770, 0o701, 0o777} {
			base := t.TempDir()
			dir := filepath.Join(base, subfolder)
			require.NoError(t, os.Mkdir(dir, 0o700))
			require.NoError(t, os.Chmod(dir, mode))
			refused(t, base, "chmod 700")
		}
	})
	t.Run("link", func(t *testing.T) {
		base, other := t.TempDir(), t.TempDir()
		require.NoError(t, os.Chmod(other, 0o700))
		require.NoError(t, os.Symlink(other, filepath.Join(base, subfolder)))
		refused(t, base, "is a link")
	})
	t.Run("file", func(t *testing.T) {
		base := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(base, subfolder), nil, 0o600))
		refused(t, base, "not a directory")
	})
	t.Run("cannot be made", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		require.NoError(t, os.WriteFile(file, nil, 0o600))
		refused(t, filepath.Join(file, "below"), "file")
	})
	t.Run("another user", func(t *testing.T) {
		base := t.TempDir()
		dir := filepath.Join(base, subfolder)
		require.NoError(t, os.Mkdir(dir, 0o700))
		if err := os.Chown(dir, 12345, 12345); err != nil {
			t.Skip("only root can give a directory away: ", err)
		}
		refused(t, base, "another user")
	})
}

// TestDirectoryGoesAway: the cache is used while somebody removes its directory.
func TestDirectoryGoesAway(t *testing.T) {
	if goruntime.GOOS == "windows" {
		t.Skip("an open directory cannot be removed")
	}
	c, log := open(t, 0)
	c.Put(keyOf(1), []byte("x"))
	require.NoError(t, os.RemoveAll(c.Dir()))
	_, ok := c.Get(keyOf(1))
	assert.False(t, ok)
	assert.Empty(t, log.take(), "nothing there is just a miss")
	c.Put(keyOf(1), []byte("x"))
	assert.Len(t, log.take(), 1)
}

// mount mounts a disk for the time of a test.
func mount(t *testing.T, options, target string) {
	t.Helper()
	out, err := exec.Command("mount", "-t", "tmpfs", "-o", options, "none", target).CombinedOutput()
	if err != nil {
		t.Skipf("a disk of its own needs mount(8) and its permission: %v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", target).Run() })
}

// TestFullAndReadOnlyDisk mounts small disks.
func TestFullAndReadOnlyDisk(t *testing.T) {
	base := t.TempDir()
	mount(t, "size=64k,mode=700", base)
	log := &lines{}
	c := Open(Config{Dir: base, Logger: slog.New(log)})
	c.Put(keyOf(1), []byte("small"))
	require.Empty(t, log.take())
	c.Put(keyOf(2), make([]byte, 100_000))
	text := log.take()
	require.Len(t, text, 1)
	assert.Contains(t, text[0], "no space left")
	_, temporary, err := c.files()
	require.NoError(t, err)
	assert.Empty(t, temporary)

	mount(t, "remount,ro", base)
	_, ok := c.Get(keyOf(1))
	assert.True(t, ok)
	c.Put(keyOf(3), []byte("x"))
	require.Len(t, log.take(), 1)
	assert.EqualValues(t, 2, c.Stats().Errors)
	for i := range 10 {
		c.Put(keyOf(4+i), []byte("x"))
	}
	assert.Empty(t, log.take(), "it was said")
	assert.EqualValues(t, 12, c.Stats().Errors)
}

// TestCampaignOnAFullDisk has caches of two processes on one disk, which others fill and empty again. What a cache returns is what was put
// there, and nothing half written stays.
func TestCampaignOnAFullDisk(t *testing.T) {
	contentOf := func(i int) []byte { return bytes.Repeat(fmt.Append(nil, i, " "), 100+37*i) }
	seeds.Each(t, 10, func(t *testing.T, seed uint64) {
		base := t.TempDir()
		mount(t, "size=256k,mode=700", base)
		log := &lines{}
		var users, filler sync.WaitGroup
		stop := make(chan struct{})
		filler.Go(func() {
			r := rand.New(rand.NewPCG(seed, 0))
			for {
				select {
				case <-stop:
					return
				default:
					_ = os.WriteFile(filepath.Join(base, "others"), make([]byte, r.IntN(512<<10)), 0o600) // as much as there is room for
					time.Sleep(time.Duration(r.IntN(500)) * time.Microsecond)
					_ = os.Remove(filepath.Join(base, "others"))
				}
			}
		})
		caches := []*Cache{Open(Config{Dir: base, Logger: slog.New(log)}), Open(Config{Dir: base, Logger: slog.New(log), Limit: 128 << 10})}
		for user := range 6 {
			users.Go(func() {
				c, r := caches[user%2], rand.New(rand.NewPCG(seed, uint64(user)+1))
				for range 100 {
					i := r.IntN(40)
					if r.IntN(2) == 0 {
						c.Put(keyOf(i), contentOf(i))
					} else if content, ok := c.Get(keyOf(i)); ok {
						assert.Equal(t, contentOf(i), content)
					}
				}
			})
		}
		users.Wait()
		close(stop)
		filler.Wait()
		for _, text := range log.take() {
			assert.Contains(t, text, "no space left")
		}
		for _, c := range caches {
			_, temporary, err := c.files()
			require.NoError(t, err)
			assert.Empty(t, temporary)
			c.Put(keyOf(1), contentOf(1))
			content, ok := c.Get(keyOf(1))
			assert.True(t, ok && bytes.Equal(contentOf(1), content), "it works again")
		}
	})
}

func TestOldestGoFirst(t *testing.T) {
	const limit, each = 64 << 10, 4 << 10
	c, log := open(t, limit)
	old := time.Now().Add(-48 * time.Hour)
	for i := range 12 {
		c.Put(keyOf(i), make([]byte, each))
		at := old.Add(time.Duration(i) * time.Minute)
		require.NoError(t, os.Chtimes(path(c, keyOf(i)), at, at))
	}
	foreign := filepath.Join(c.Dir(), "notes.txt")
	require.NoError(t, os.WriteFile(foreign, make([]byte, limit), 0o600))
	stale := filepath.Join(c.Dir(), temporaryPrefix+"DEAD")
	require.NoError(t, os.WriteFile(stale, []byte("x"), 0o600))
	require.NoError(t, os.Chtimes(stale, old, old))
	fresh := filepath.Join(c.Dir(), temporaryPrefix+"ALIVE")
	require.NoError(t, os.WriteFile(fresh, []byte("x"), 0o600))

	_, ok := c.Get(keyOf(0)) // which makes it young
	require.True(t, ok)
	for i := 100; i < 110; i++ {
		c.Put(keyOf(i), make([]byte, each))
		_, size, err := c.Size()
		require.NoError(t, err)
		assert.LessOrEqual(t, size, int64(limit))
	}
	for i, kept := range map[int]bool{0: true, 1: false, 2: false, 11: true, 109: true} {
		_, ok := c.Get(keyOf(i))
		assert.Equal(t, kept, ok, "entry %d", i)
	}
	assert.Positive(t, c.Stats().Evictions)
	assert.FileExists(t, foreign)
	assert.FileExists(t, fresh)
	assert.NoFileExists(t, stale)
	require.NoError(t, c.Clear())
	assert.FileExists(t, foreign, "what is not ours stays")
	assert.Empty(t, log.take())
}

func TestHitsTouchOnceAnHour(t *testing.T) {
	c, _ := open(t, 0)
	c.Put(keyOf(1), []byte("x"))
	at := func(age time.Duration) time.Time {
		when := time.Now().Add(-age).Truncate(time.Second)
		require.NoError(t, os.Chtimes(path(c, keyOf(1)), when, when))
		_, ok := c.Get(keyOf(1))
		require.True(t, ok)
		info, err := os.Stat(path(c, keyOf(1)))
		require.NoError(t, err)
		if info.ModTime().Equal(when) {
			return when
		}
		return info.ModTime()
	}
	assert.Greater(t, time.Since(at(30*time.Minute)), 29*time.Minute, "young: left alone")
	assert.Less(t, time.Since(at(2*time.Hour)), time.Minute, "old: made young")
}

// TestAgainstAModel does what users do, at random, and damages files in between: what is
// got is what was put last, or a miss.
func TestAgainstAModel(t *testing.T) {
	seeds.Each(t, 20, func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 1))
		c, _ := open(t, 1<<16)
		put := map[int][]byte{}
		for range 300 {
			i := r.IntN(8)
			switch r.IntN(5) {
			case 0, 1:
				content := make([]byte, r.IntN(5000))
				for j := range content {
					content[j] = byte(r.Uint32())
				}
				c.Put(keyOf(i), content)
				put[i] = content
			case 2, 3:
				if got, ok := c.Get(keyOf(i)); ok {
					require.True(t, bytes.Equal(put[i], got))
				}
			case 4:
				file, err := os.ReadFile(path(c, keyOf(i)))
				if err != nil {
					continue
				}
				if r.IntN(2) == 0 {
					file = file[:r.IntN(len(file))]
				} else {
					file[r.IntN(len(file))] ^= 1 << r.IntN(8)
				}
				require.NoError(t, os.WriteFile(path(c, keyOf(i)), file, 0o600))
				_, ok := c.Get(keyOf(i))
				require.False(t, ok)
			}
		}
	})
}

// TestManyAtOnce reads, writes, trims and clears in one directory through several caches,
// as several processes do: no reader sees half an entry.
func TestManyAtOnce(t *testing.T) {
	base := t.TempDir()
	log := &lines{}
	content := func(i int) []byte { return bytes.Repeat([]byte{byte(i + 1)}, 3000+i) }
	var wg sync.WaitGroup
	for g := range 8 {
		c := Open(Config{Dir: base, Limit: 64 << 10, Logger: slog.New(log)})
		wg.Go(func() {
			for n := range 200 {
				i := (g + n) % 30
				if got, ok := c.Get(keyOf(i)); ok {
					assert.True(t, bytes.Equal(content(i), got))
				} else {
					c.Put(keyOf(i), content(i))
				}
				if n%97 == 0 {
					assert.NoError(t, c.Clear())
				}
			}
		})
	}
	wg.Wait()
	for _, line := range log.take() {
		// Windows does not let go of files that are open elsewhere.
		assert.True(t, goruntime.GOOS == "windows", line)
	}
}

func FuzzDecode(f *testing.F) {
	good := append(encode(keyOf(1), []byte("content")), "content"...)
	f.Add([]byte{})
	f.Add(good)
	f.Add(good[:headerSize])
	f.Add([]byte(strings.Repeat("p", 200)))
	f.Fuzz(func(t *testing.T, file []byte) {
		content, err := decode(keyOf(1), file)
		if err == nil && !bytes.Equal(append(encode(keyOf(1), content), content...), file) {
			t.Error("accepted what was not written")
		}
	})
}

func BenchmarkGet(b *testing.B) {
	for _, size := range []int{1 << 10, 100 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			c := Open(Config{Dir: b.TempDir()})
			c.Put(keyOf(1), make([]byte, size))
			b.SetBytes(int64(size))
			for b.Loop() {
				if _, ok := c.Get(keyOf(1)); !ok {
					b.Fatal("miss")
				}
			}
		})
	}
}

func BenchmarkPut(b *testing.B) {
	c := Open(Config{Dir: b.TempDir()})
	content := make([]byte, 100<<10)
	for n := 0; b.Loop(); n++ {
		c.Put(keyOf(n), content)
	}
}

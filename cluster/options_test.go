package cluster_test

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/cluster"
	"github.com/purecuda/purecuda/cluster/embedded"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/pool/isolate"
	"github.com/purecuda/purecuda/runtime"
)

// TestOptions gives each option to all that take some: what nobody would read is an error that says where it belongs.
func TestOptions(t *testing.T) {
	h := cluster.Handle[int, int]("typed/v1")
	options := map[string]struct {
		option cluster.Option
		doors  string
	}{
		"WithName":          {cluster.WithName("cluster"), "Open and Serve"},
		"WithFileStorage":   {cluster.WithFileStorage(), "Open"},
		"WithReplicas":      {cluster.WithReplicas(1), "Open"},
		"WithMaxBytes":      {cluster.WithMaxBytes(1 << 20), "Open"},
		"WithRetry":         {cluster.WithRetry(1), "Open and calls"},
		"WithPieceDeadline": {cluster.WithPieceDeadline(time.Second), "Open and calls"},
		"WithPatience":      {cluster.WithPatience(time.Second), "Open and calls"},
		"WithVerify":        {cluster.WithVerify(0), "Open and calls"},
		"WithProgress":      {cluster.WithProgress(func(int, int) {}), "Open and calls"},
		"WithFallback": {h.WithFallback(func(context.Context, int, []cluster.Ref) (int, error) { return 0, nil }),
			"Open and calls"},
		"WithTrace":     {cluster.WithTrace(&runtime.Trace{}), "Open and calls"},
		"WithSameBuild": {cluster.WithSameBuild(), "Open and calls and Serve"},
		"WithLogger":    {cluster.WithLogger(slog.Default()), "Open and Serve"},
		"WithHostName":  {cluster.WithHostName("host"), "Serve"},
		"WithSlots":     {cluster.WithSlots(1), "Serve"},
		"WithMemory":    {cluster.WithMemory(1 << 20), "Serve"},
		"WithDrain":     {cluster.WithDrain(time.Second), "Serve"},
		"WithRoot":      {cluster.WithRoot("data", t.TempDir()), "Serve"},
		"WithURL":       {cluster.WithURL("https://example.org/data/"), "Serve"},
		"WithCache":     {cluster.WithCache(t.TempDir(), 1<<20), "Serve"},
		"WithCPU":       {h.WithCPU(func(context.Context, int, []*isolate.Buffer) (int, error) { return 0, nil }), "Serve"},
		"WithObserver":  {cluster.WithObserver(func(cluster.Host) {}), "Serve"},
	}
	for name := range optionsOf(t) {
		assert.Contains(t, options, name)
	}
	nc := connect(t, start(t, embedded.Config{}))
	c, p := open(t, nc), openPool(t, 0)
	ended, end := context.WithCancel(context.Background())
	end()
	for name, one := range options {
		for door, give := range map[string]func() error{
			"Open": func() error {
				c, err := cluster.Open(within(t), nc, cluster.WithName(name), cluster.WithMaxBytes(1<<20), one.option)
				if err == nil {
					assert.NoError(t, c.Close())
				}
				return err
			},
			"calls": func() error {
				_, err := cluster.Scatter(within(t), c, "echo/v1", 0, func(int) (cluster.Piece, error) { return cluster.Piece{}, nil },
					func(int, []byte) error { return nil }, one.option)
				return err
			},
			"Serve": func() error { return cluster.Serve(ended, nc, p, []string{"echo/v1"}, one.option) },
		} {
			err := give()
			if slices.Contains(strings.Split(one.doors, " and "), door) {
				assert.NoError(t, err, "%s of %s", name, door)
				continue
			}
			assert.ErrorIs(t, err, driver.ErrInvalidArgument)
			assert.ErrorContains(t, err, fmt.Sprintf("%s is an option of %s, and not of %s", name, one.doors, door))
		}
	}
}

// optionsOf are the functions of this package that return an option.
func optionsOf(t *testing.T) map[string]bool {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	all := map[string]bool{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(gotoken.NewFileSet(), name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !f.Name.IsExported() || f.Type.Results == nil {
				continue
			}
			if result, ok := f.Type.Results.List[0].Type.(*ast.Ident); ok && result.Name == "Option" {
				all[f.Name.Name] = true
			}
		}
	}
	require.NotEmpty(t, all)
	return all
}

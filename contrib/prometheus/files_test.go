package prometheus_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	purecudaprom "github.com/purecuda/purecuda/contrib/prometheus"
	"github.com/purecuda/purecuda/pool/poolmetrics"
	"github.com/purecuda/purecuda/runtime"
)

// names are those of all metrics, with their labels.
func names(t *testing.T) map[string][]string {
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyOff))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, rt.Close()) })
	all := map[string][]string{}
	fields := regexp.MustCompile(`fqName: "(\w+)".*variableLabels: \{([\w,]*)\}`)
	for _, c := range []prometheus.Collector{purecudaprom.NewCollector(rt), purecudaprom.NewPoolCollector(poolmetrics.NewReader(nil)),
		purecudaprom.NewHealthCollector(nil)} {
		descs := make(chan *prometheus.Desc, 1000)
		c.Describe(descs)
		close(descs)
		for d := range descs {
			match := fields.FindStringSubmatch(d.String())
			require.NotNil(t, match, d.String())
			all[match[1]] = strings.Split(match[2], ",")
		}
	}
	require.Greater(t, len(all), 40)
	return all
}

// TestFilesNameMetrics holds the dashboard and the alerts against the collectors: every metric that they name is
// there.
func TestFilesNameMetrics(t *testing.T) {
	known := names(t)
	metric := regexp.MustCompile(`purecuda_[a-z_]+`)
	for _, file := range []string{"grafana.json", "alerts.yaml", "README.md"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		named := metric.FindAllString(string(text), -1)
		assert.NotEmpty(t, named)
		for _, name := range named {
			assert.Contains(t, known, name, file)
		}
	}
}

func TestDashboard(t *testing.T) {
	text, err := os.ReadFile("grafana.json")
	require.NoError(t, err)
	var dashboard struct {
		Panels []struct {
			ID      int
			Title   string
			Targets []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &dashboard))
	ids := map[int]bool{}
	for _, p := range dashboard.Panels {
		assert.False(t, ids[p.ID], p.Title)
		ids[p.ID] = true
		require.NotEmpty(t, p.Targets, p.Title)
		for _, target := range p.Targets {
			checkExpression(t, target.Expr)
		}
	}
}

func TestAlerts(t *testing.T) {
	text, err := os.ReadFile("alerts.yaml")
	require.NoError(t, err)
	assert.NotContains(t, string(text), "\t")
	expressions := regexp.MustCompile(`(?m)^    expr: (.*)$`).FindAllStringSubmatch(string(text), -1)
	assert.Len(t, expressions, strings.Count(string(text), "  - alert: "))
	for _, e := range expressions {
		checkExpression(t, e[1])
	}
}

// checkExpression checks what can go wrong in an expression without a server.
func checkExpression(t *testing.T, expr string) {
	t.Helper()
	for _, pair := range []string{"()", "{}", "[]"} {
		assert.Equal(t, strings.Count(expr, pair[:1]), strings.Count(expr, pair[1:]), expr)
	}
	for _, counter := range regexp.MustCompile(`purecuda_\w+_total(\{[^}]*\})?(.)`).FindAllStringSubmatch(expr, -1) {
		assert.Equal(t, "[", counter[2], "a counter needs a rate: %s", expr)
	}
}

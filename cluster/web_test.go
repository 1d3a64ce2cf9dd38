package cluster_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// serveWeb serves data under /data/, with and without ranges, and a secret beside it.
func serveWeb(t *testing.T, data []byte) string {
	mux := http.NewServeMux()
	mux.HandleFunc("/data/ranges", func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
	})
	mux.HandleFunc("/data/whole", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(data) })
	mux.HandleFunc("/data/elsewhere", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/secret", http.StatusFound) })
	mux.HandleFunc("/secret", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(data) })
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

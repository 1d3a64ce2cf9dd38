// Tools of this project, pinned. They are no part of the library: its go.mod does not
// see what they need. Run them from the root of the repository:
//
//	go tool -modfile=tools/go.mod staticcheck ./...
//	go tool -modfile=tools/go.mod benchstat -col /impl bench.txt
//
// Three are our own: apilist lists the exported API, licences what is linked, and snippets compiles
// the Go code in documents. They run here:
//
//	go run -C tools ./licences
module github.com/purecuda/purecuda/tools

go 1.26.0

tool (
	golang.org/x/perf/cmd/benchstat
	honnef.co/go/tools/cmd/staticcheck
)

require (
	github.com/google/licensecheck v0.3.1
	golang.org/x/tools v0.52.0
)

require (
	github.com/BurntSushi/toml v1.4.1-0.20240526193622-a339e1f7089c // indirect
	github.com/aclements/go-moremath v0.0.0-20210112150236-f10218a38794 // indirect
	golang.org/x/exp/typeparams v0.0.0-20231108232855-2478ac86f678 // indirect
	golang.org/x/mod v0.42.0 // indirect
	golang.org/x/perf v0.0.0-20260908200009-22c9c6c9d4da // indirect
	golang.org/x/sync v0.24.0 // indirect
	honnef.co/go/tools v0.8.2 // indirect
)

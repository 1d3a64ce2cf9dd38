// Smoke hashes a file or a folder, on the GPUs where a CUDA driver is there and on
// all CPU cores where it is not, and checks the result.
//
// It cuts every file into chunks, computes SHA-256 of each chunk, checks the digests
// with crypto/sha256, and prints the root: SHA-256 over all chunk digests in order.
// The root is the same wherever the job ran.
//
//	smoke                            # hash this program itself
//	smoke --input /srv/data --json   # one JSON document on stdout
//	smoke --input F --policy off     # never look for a GPU
//	smoke --input F --devices 0,2    # on two of the GPUs; without it on all
//	smoke --input F --with-cpu       # on the GPUs, and on the cores that do not read for them
//	smoke --input F --simulate 2     # on two GPUs that are simulated on the CPU
//	smoke --input F --out digests    # and write the digest of each chunk to a file
//	smoke help [COMMAND]             # what there is; smoke completion has scripts for shells
//	smoke bench                      # measure calls, launches, copies, scaling and the job
//	smoke cache                      # where compiled kernels are kept, and how much there is
//	smoke cache clear                # remove them
//	smoke doctor                     # what this machine has of CUDA, and what to do about the rest
//
// With --simulate N, the job runs on N simulated GPUs: the same calls of the driver and
// the same PTX as on real ones, executed by an interpreter at some MB/s. Every access
// is checked, and what the job does wrong or does not give back makes it fail. The
// devices of this machine are not touched.
//
// On several GPUs each takes the next part of the input when it is free, so that a slow one
// does not hold up the others. A GPU that fails or vanishes under way ends the job with an
// error that names it, whatever the policy: the policy is about what is found at the start, and
// a service that went on would run slowly and nobody would know. --policy off, or --devices
// without that GPU, runs the job again.
//
// Where there is no GPU, the first line says why, without the places that were looked at: smoke doctor
// has them, and so does the JSON document.
//
// --out writes a line "digest  path#chunk" for each chunk. A file is complete or not there: a new file takes
// the name of the old one, and a symbolic link to it stays. --out - writes to stdout, and the
// report goes to stderr. So does /dev/stdout, and any other name of the file that stdout is.
// /dev/stderr and /dev/fd/N are written to as well, and not replaced. What goes there cannot be
// taken back when the job fails; the exit code tells.
//
// A file that tells no size, such as those of /proc, is read when it is listed and kept in memory.
//
// An interrupt (Ctrl-C) or SIGTERM ends the job within a second. What was hashed by then, from the
// first chunk on, is told as partial, without a root, and nothing of the file of --out stays. A kernel that
// still runs is left to the driver, which ends it with the process.
//
// # Doctor
//
// smoke doctor tells which build this is and how it was started, the policy and the variables that
// matter, device files and whether this user may open them, signs of containers and of WSL,
// every candidate for the driver and for NVRTC and why it was not taken, the versions and what
// they can do together, the devices, each after a kernel has computed on it, and the cache. The
// problems come last, each on one line with what to do about it. docs/doctor.md has an example.
//
// Whatever calls a library runs in a process of its own, for at most 30 seconds, so that a
// driver that crashes or hangs is a line of the report. The GPUs are looked at whatever the policy
// is. --quiet prints the problems only, --simulate N looks at simulated GPUs. The other flags
// are for the job and are refused.
//
// # Exit codes
//
// Those of doctor are 0 when the report could be made, whatever it says, 1 when it was interrupted
// or cannot be written, and 2 for a bad flag or value. Those of the job:
//
//	0  done, and every digest that was checked is right
//	1  a GPU is there and faulty, a digest is wrong, or reading, writing or hashing
//	   failed under way; also when interrupted, and when stdout is full or its reader gone
//	2  the request cannot be carried out as it stands: a bad flag or value, an input
//	   that is missing, empty, no file or folder, or runs in a circle
//	3  --policy required, and there is no GPU
//
// # The JSON document
//
// With --json, stdout gets one document and nothing else, also when the job fails.
// Characters that a terminal would obey are written as escapes of JSON.
// Names that are not valid UTF-8 or hold control characters are quoted in Go's
// syntax in it.
//
//	schema_version  1; a change that breaks a reader makes it larger
//	tool            name, version and Go version of this program
//	host            os, arch and the number of CPU cores it may use
//	outcome         available, absent, fault or off; "unknown" where the request
//	                failed before a GPU was looked for
//	reason          kind and detail of an absence or fault, else null
//	devices         the GPUs found, usable or not
//	job             what was hashed and found; null where the input could not be
//	                listed, and without root where the job failed
//	error           kind and detail of the failure, else null
//
// In job, verified counts the chunks compared with crypto/sha256, verify_mode is
// all, sample or none, verify_fraction and verify_seed say which sample, ran_on is
// "cpu" or names the GPUs, shares has for each GPU, and for the CPU if it took part, the
// chunks and bytes that it hashed, the seconds that it had work for (busy_seconds, copies
// included, as the device's own clock has it) and gb_per_s over the whole job, seconds runs
// from the first read to the root, and setup_seconds is what opening the workers took before
// that. gb_per_s is bytes / seconds / 1e9.
//
// # What smoke bench prints
//
// Lines in the format of Go benchmarks on stdout, one for each round, which benchstat reads, below
// the lines goos, goarch, cpu, gpu, driver (of NVIDIA's kernel module) and cuda where they are
// known. A run that failed or was interrupted ends with a line "# partial: ...". With --json it is
// one document with schema_version, tool, host, outcome, reason, devices and error as above, and
//
//	cpu, gpu        their names; of several GPUs "2 x NAME"
//	driver, cuda    as above; driver is "simulated" with --simulate
//	date            when it began, in RFC 3339
//	simulated       true with --simulate: the numbers say nothing about a GPU
//	round_seconds   how long each operation was repeated for a value
//	count           how many values there are of each
//	partial         true if not everything was measured; error says why
//	results         name, unit (ns/op, MB/s, hashes/s; of requests also p50-ns, p99-ns, max-ns,
//	                cores and threads; of BreakEven also items), values and median, and the table
//	                of BreakEven; a name is there once for each unit
//
// MB is 1e6 bytes. ns/op is the mean of a round; for goroutines and devices at the same time it is
// wall time. A copy is timed until it is done, a launch until it is on the stream, and the job from
// the first read to the root. The items of BreakEven are from how many chunks of 4 KiB on the GPUs hash
// faster than all cores, or 0 if they never do; its table is in lines that begin with "#".
package main

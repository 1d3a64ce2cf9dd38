// Smoke hashes a file or a folder, on the GPUs if there is a CUDA driver, and otherwise on all
// CPU cores, and checks the result.
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
//	smoke --input F --isolate        # in child processes, which may die
//	smoke --input F --out digests    # and write the digest of each chunk to a file
//	smoke help [COMMAND]             # all commands; smoke completion has scripts for shells
//	smoke bench                      # measure calls, launches, copies, scaling and the job
//	smoke cache                      # where compiled kernels are kept, and how much there is
//	smoke cache clear                # remove them
//	smoke doctor                     # what this machine has of CUDA, and what to do about the rest
//
// With --simulate N, the job runs on N simulated GPUs, and does not use the devices of this machine. The
// calls of the driver and the PTX are those for real GPUs. An interpreter runs the PTX at some MB/s.
// Every access is checked. An error of the job, or memory that it does not free, makes it fail.
//
// On several GPUs each takes the next part of the input when it is free, so that a slow GPU does not
// delay the others. A GPU that fails or vanishes during the job ends the job with an error that names it,
// whatever the policy. The policy is about the GPUs at the start: a job that went on without the GPU
// would be slow without a reason that anybody sees. Run it again with --policy off, or with --devices
// without that GPU.
//
// With --isolate a child process hashes for each GPU, by package pool/isolate. A child that is killed, or whose
// GPU fails, is started again, and the batches that it had are hashed again. The end of the report says
// which children died, and why. A GPU whose children die more than 10 times in a minute is left out, and the others
// do its work. Where none is left, the job ends with an error.
//
// If there is no GPU, the first line says why. smoke doctor and the JSON document also have the files that
// were tried.
//
// --out writes a line "digest  path#chunk" for each chunk. A file is complete or not there: a new file takes
// the name of the old one, and a symbolic link to it stays. --out - writes to stdout, and the
// report goes to stderr. So does /dev/stdout, and any other name of the file that stdout is.
// /dev/stderr and /dev/fd/N are written to as well, and not replaced. Output there stays when the job
// fails; the exit code tells.
//
// A file without a size, such as in /proc, is read when it is listed and kept in memory.
//
// An interrupt (Ctrl-C), SIGTERM or SIGHUP ends the job within a second; under nohup SIGHUP does nothing. The report has what was hashed by then,
// from the first chunk on, as partial, without a root. The file of --out is removed. The driver ends a
// kernel that still runs with the process.
//
// # Doctor
//
// smoke doctor prints:
//
//   - This build and how it was started, the policy, and the environment variables that matter.
//   - The device files, and whether this user may open them.
//   - Signs of containers and of WSL.
//   - Every candidate for the driver and for NVRTC, and why it was not taken.
//   - Their versions, and what these can do together.
//   - NVIDIA's other libraries, such as cuBLAS: found or not, and whether the driver is new enough for them.
//   - The devices, each after a kernel has run on it, and the cache.
//   - The problems, each on one line with what to do about it.
//
// docs/doctor.md has an example.
//
// Every call of a library runs in a process of its own, for at most 30 seconds. So a driver that crashes
// or hangs is a line of the report. doctor tests the GPUs whatever the policy is. --quiet prints the problems
// only. --simulate N tests simulated GPUs. The other flags are for the job, and are errors.
//
// # Exit codes
//
// Those of the job:
//
//	0  done, and every digest that was checked is right
//	1  a GPU is there and faulty, a digest is wrong, or reading, writing or hashing
//	   failed; also when interrupted, and when stdout is full or its reader gone
//	2  the request cannot be carried out: a bad flag or value, an input that is
//	   missing, empty, no file or folder, or runs in a circle
//	3  --policy required, and there is no GPU
//
// Those of doctor:
//
//	0  the report was made, whatever it says
//	1  doctor was interrupted, or the report cannot be written
//	2  a bad flag or value
//
// # The JSON document
//
// With --json, stdout gets one document and nothing else, also when the job fails. Control characters
// are written as escapes of JSON. Names that are not valid UTF-8 or hold control characters are quoted
// in Go's syntax.
//
//	schema_version  1; a change that breaks a reader makes it larger
//	tool            name, version and Go version of this program
//	host            os, arch and the number of CPU cores it may use
//	outcome         available, absent, fault or off; "unknown" if the request
//	                failed before a GPU was looked for
//	reason          kind and detail of an absence or fault, else null
//	devices         the GPUs found, usable or not
//	job             what was hashed and found; null if the input could not be
//	                listed, and without root if the job failed
//	error           kind and detail of the failure, else null
//
// The fields of job:
//
//	verified         the number of chunks compared with crypto/sha256
//	verify_mode      all, sample or none
//	verify_fraction, verify_seed  which sample
//	ran_on           "cpu", or the names of the GPUs
//	shares           for each GPU, and for the CPU if it took part: the chunks and bytes
//	                 that it hashed, busy_seconds and gb_per_s over the whole job
//	busy_seconds     the time that it had work, with copies, by the clock of the device
//	seconds          from the first read to the root
//	setup_seconds    the time before that, to open the workers
//	gb_per_s         bytes / seconds / 1e9
//	children         with --isolate for each GPU: the processes that were started and that died,
//	                 and why the last one did
//
// # What smoke bench prints
//
// stdout gets lines in the format of Go benchmarks, one for each round, which benchstat reads. Above them
// are the lines goos, goarch, cpu, gpu, driver (of NVIDIA's kernel module) and cuda, if they are known. A
// run that failed or was interrupted ends with a line "# partial: ...". With --json it is one document
// with schema_version, tool, host, outcome, reason, devices and error as above, and
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
// MB is 1e6 bytes. ns/op is the mean of a round. For goroutines and devices at the same time it is wall
// time. A copy is timed until it is done, a launch until it is on the stream, and the job from the first
// read to the root. The items of BreakEven are the least number of chunks of 4 KiB that the GPUs hash
// faster than all cores, or 0 if there is none. Its table is in lines that begin with "#".
package main

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
//	smoke cache                      # where compiled kernels are kept, and how much there is
//	smoke cache clear                # remove them
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
// # Exit codes
//
//	0  done, and every digest that was checked is right
//	1  a GPU is there and faulty, a digest is wrong, or reading, writing or hashing
//	   failed under way; also when interrupted
//	2  the request cannot be carried out as it stands: a bad flag or value, an input
//	   that is missing, empty, no file or folder, or runs in a circle
//	3  --policy required, and there is no GPU
//
// # The JSON document
//
// With --json, stdout gets one document and nothing else, also when the job fails.
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
// included, as the device's own clock has it) and gb_per_s over the whole job, seconds runs from the first read to the root, and
// setup_seconds is what opening the workers took before that. gb_per_s is bytes / seconds / 1e9.
package main

// Package artifact keeps compiled code on disk, so that the next process need not compile
// it again.
//
//	cache := artifact.Open(artifact.Config{Logger: logger})
//	code, ok := cache.Get(key)
//	if !ok {
//		code = compile()
//		cache.Put(key, code)
//	}
//
// A [Key] is a digest of everything that the content depends on, so that an entry never
// becomes wrong and is never updated. An entry is one file, named by its key, with the
// SHA-256 of its content, which is checked at every read.
//
// The cache cannot fail: what is missing, damaged or not permitted is a miss, and every
// trouble is one line of the log and one count in [Stats]. Nothing of it is an error to
// the caller, who compiles then.
//
// # Who can write what
//
// Code that is read here runs on the GPU in the name of the user, and the digest tells
// damage, not forgery. So the files lie in a directory of their own, "artifacts", with
// mode 0700, that belongs to the user. If it is a link, belongs to somebody else, or
// others may enter it, the cache is off. It is opened once and all names are then
// looked up from there, so that nobody can put another directory in its place.
//
// # Several processes
//
// A file is written under a name of its own and then renamed, so that a reader sees all
// of it or nothing. Two processes that miss at once both compile, and the last to finish
// replaces the same content with the same content. Nothing is locked.
//
// fsync is not called: after a crash of the machine a file may be short or full of zeros,
// which the digest finds.
package artifact

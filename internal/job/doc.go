// Package job is the main job of smoke: it cuts files into chunks, computes the
// SHA-256 digest of every chunk, and combines the digests into one root.
//
// The root is SHA-256 over the chunk digests in order: files in lexical order of their
// slash-separated relative path, the chunks of a file from its start. The last chunk of a file may
// be shorter, an empty file has no chunk. With rounds, every digest is hashed again that many times
// before it goes into the root. The root depends on the bytes, the names' order, the chunk size and
// the rounds. It does not depend on the engine, the number of workers or devices or the size of a
// batch.
//
//	in, err := job.List(ctx, "/srv/data")
//	if err != nil {
//		return err
//	}
//	engine := job.NewCPU(goruntime.GOMAXPROCS(0))
//	defer engine.Close()
//	result, err := job.Run(ctx, in, engine, job.Options{ChunkBytes: 4096})
//
// The work streams: batches of whole chunks go through [pool.Stream], which reads them into the buffers of
// devices or cores, and gives the digests back in order. The buffers together stay below [MemoryBudget]
// whatever the size of the input.
package job

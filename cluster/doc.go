// Package cluster does work on the GPUs of several hosts. NATS JetStream hands the work out.
//
// A host serves functions that were registered with [isolate.Register], in child processes or in a
// pool:
//
//	err := cluster.Serve(ctx, nc, group, []string{"blur/v1"}) // until ctx ends
//
// A program calls them by their names, on whatever hosts serve them:
//
//	c, err := cluster.Open(ctx, nc)
//	if err != nil {
//		return err
//	}
//	defer c.Close()
//	out, report, err := cluster.Map(ctx, c, "blur/v1", images)
//
// The reports and errors are package pool's, with the host. Package cluster/embedded runs a
// server of NATS in the process, so that one machine needs nothing installed.
//
// # Who keeps what
//
// The caller owns the truth: it knows which pieces are done, and takes each result once. The server
// only hands out. Its loss costs time and no result: a piece without an answer is published again. The
// server refuses a second result of a host for a piece, and the caller ignores one of another host. So functions may run twice for a
// piece, and must give the same result.
//
// A call lives as long as its process. What a caller had in the queue when it was killed is done, and
// nobody takes the results; the server drops them after an hour.
//
// # What fails
//
//   - A function that returns an error, or whose child dies: another host repeats the piece
//     ([WithRetry]). Without another host the same one does.
//   - A host that is killed: the server gives its pieces to others after three seconds.
//   - A piece that five hosts began, and then fell silent, is poison: [ErrPoison]. What a host gives back does not count.
//   - A piece that takes longer than [WithPieceDeadline] is stopped on its host. With [isolate.Group] that holds
//     for a kernel that never ends as well.
//   - No host serves the function ([ErrNoWorker]), or there is no connection ([ErrDisconnected]), for longer than
//     [WithPatience]. The call fails, as it does for refused rights ([ErrPermission]) and limits ([ErrQuota]).
//   - With [WithFallback] the rest is done here where the hosts do not, and the report has the reason.
//
// # Data
//
// A [Piece] has data and references. Data go with the message as far as the server's payload allows it, and larger data,
// up to 16 MiB, through the server's object store; results alike. A [Ref] names data that the host gets itself: a file below
// a root, a URL or an object, with its range and digest. It becomes one of [isolate.Request].Buffers.
package cluster

package runtime

import "context"

// UploadNew allocates memory on the device of s for the elements of src, and uploads them. All else is as
// with [Alloc] and [Upload]. After an error there is no memory to close.
func UploadNew[T any](ctx context.Context, s *Stream, src []T) (*Ref[T], error) {
	if err := usable(ctx, s, "UploadNew"); err != nil {
		return nil, err
	}
	dst, err := Alloc[T](s, len(src))
	if err != nil {
		return nil, err
	}
	if err := Upload(ctx, s, dst, src); err != nil {
		s.ctx.rt.report(dst.Close())
		return nil, err
	}
	return dst, nil
}

// DownloadNew makes a slice, and downloads all elements of src to it. All else is as with [Download].
func DownloadNew[T any](ctx context.Context, s *Stream, src *Ref[T]) ([]T, error) {
	if err := usable(ctx, s, "DownloadNew"); err != nil {
		return nil, err
	}
	if _, err := src.Access(); err != nil {
		return nil, err
	}
	dst := make([]T, src.Len())
	if err := Download(ctx, s, dst, src); err != nil {
		return nil, err
	}
	return dst, nil
}

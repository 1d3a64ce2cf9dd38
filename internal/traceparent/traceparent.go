// Package traceparent carries what another process has said about the trace of a request, a traceparent of W3C for example, in a context.
package traceparent

import "context"

// Max is how long such a text may be. A traceparent of version 00 has 55 bytes.
const Max = 200

type key struct{}

// With returns a context with the text. A text that is too long is left out.
func With(ctx context.Context, text string) context.Context {
	if len(text) > Max || text == From(ctx) {
		return ctx
	}
	return context.WithValue(ctx, key{}, text)
}

// From returns the text of a context, or "".
func From(ctx context.Context) string {
	text, _ := ctx.Value(key{}).(string)
	return text
}

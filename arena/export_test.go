package arena

import "github.com/purecuda/purecuda/driver"

// CopierConfig is what tests choose.
type CopierConfig = copierConfig

// NewCopierWith makes a copier with other buffers and helpers than those that were measured.
func NewCopierWith(b *driver.Binding, w *Workers, p *Pinned, c CopierConfig) *Copier {
	return newCopier(b, w, p, nil, c)
}

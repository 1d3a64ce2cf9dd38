package curand

import (
	"errors"

	"github.com/purecuda/purecuda/internal/dl"
)

// Host is a cuRAND whose generators are those of curandCreateGeneratorHost: they fill memory of the host.
type Host struct{ *Library }

// NewHost makes one of an open library.
func NewHost(l *Library) (Host, error) {
	lib, _, err := dl.Open(l.Path())
	if err != nil {
		return Host{}, err
	}
	host := *l
	if host.fn[fnCreateGenerator] = lib.Symbol("curandCreateGeneratorHost"); host.fn[fnCreateGenerator] == 0 {
		return Host{}, errors.New(l.Path() + " has no curandCreateGeneratorHost")
	}
	return Host{&host}, nil
}

//! How many packets may be on their way.

/// A bound on the packets that are sent and not acknowledged. Where a fabric may lose what a receiver is
/// too slow for, it follows what arrives, as TCP's does (RFC 5681): it halves when packets were lost,
/// and grows by one when as many as it holds have arrived; at first, by one for each that arrives.
pub(super) struct Window {
    most: u32,
    now: u32,
    /// Whether it follows what arrives.
    adapts: bool,
    /// Below it, each arrival opens the window by one.
    threshold: u32,
    /// Packets that have arrived and not opened it yet.
    arrived: u32,
}

/// Where a window that adapts begins, and the least that it closes to.
const FIRST: u32 = 16;
const LEAST: u32 = 2;

impl Window {
    /// Always `packets`.
    pub(super) fn fixed(packets: u32) -> Self {
        Window { most: packets, now: packets, adapts: false, threshold: packets, arrived: 0 }
    }

    /// At most `packets` from now on, and fewer after losses.
    pub(super) fn limit(&mut self, packets: u32) {
        self.most = self.most.min(packets.max(1));
        if !self.adapts {
            (self.adapts, self.now, self.threshold) = (true, FIRST, self.most);
        }
        self.now = self.now.min(self.most);
    }

    /// Packets that may be on their way.
    pub(super) fn packets(&self) -> u32 {
        self.now
    }

    /// Packets were lost.
    pub(super) fn lost(&mut self) {
        if self.adapts {
            self.threshold = (self.now / 2).max(LEAST).min(self.most);
            (self.now, self.arrived) = (self.threshold, 0);
        }
    }

    /// `packets` were acknowledged.
    pub(super) fn acknowledged(&mut self, packets: u32) {
        if !self.adapts {
            return;
        }
        if self.now < self.threshold {
            self.now = self.now.saturating_add(packets).min(self.threshold);
            return;
        }
        self.arrived = self.arrived.saturating_add(packets);
        if self.arrived >= self.now {
            self.arrived = 0;
            self.now = (self.now + 1).min(self.most);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fixed_window_stays_what_it_is() {
        let mut window = Window::fixed(7);
        window.lost();
        window.acknowledged(100);
        assert_eq!(window.packets(), 7);
    }

    #[test]
    fn a_window_opens_with_arrivals_and_closes_with_losses_within_its_bounds() {
        let mut window = Window::fixed(128);
        window.limit(100);
        assert_eq!(window.packets(), FIRST);
        window.acknowledged(10);
        assert_eq!(window.packets(), FIRST + 10);
        window.acknowledged(u32::MAX);
        assert_eq!(window.packets(), 100);
        window.lost();
        assert_eq!(window.packets(), 50);
        // From here on by one for each window that arrives.
        window.acknowledged(49);
        assert_eq!(window.packets(), 50);
        window.acknowledged(1);
        assert_eq!(window.packets(), 51);
        for _ in 0..10 {
            window.lost();
        }
        assert_eq!(window.packets(), LEAST);
        window.limit(1);
        assert_eq!(window.packets(), 1);
        window.lost();
        assert_eq!(window.packets(), 1);
    }
}

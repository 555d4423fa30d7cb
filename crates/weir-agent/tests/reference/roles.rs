//! Several controllers of 1.3 and their roles (1.3 §6.3.4).

use super::Reference;
use weir_openflow::model::*;

/// Who is connected, by number, and the last election that anybody told of.
#[derive(Clone, Debug, Default)]
pub struct Controllers {
    pub all: Vec<(u64, Role)>,
    generation: Option<u64>,
}

impl Reference {
    fn role_of(&mut self, who: u64) -> &mut Role {
        &mut self.controllers.all.iter_mut().find(|c| c.0 == who).unwrap().1
    }

    /// A controller asks for a role; what it is told.
    pub fn role(&mut self, who: u64, m: RoleMsg) -> Result<RoleMsg, ErrorCode> {
        if matches!(m.role, Role::Master | Role::Slave) {
            // Elections are numbered around a circle: half of it is behind.
            let behind = |last: u64| m.generation.wrapping_sub(last) >= 1 << 63;
            if self.controllers.generation.is_some_and(behind) {
                return Err(ErrorCode::RoleStale);
            }
            self.controllers.generation = Some(m.generation);
        }
        if m.role == Role::Master {
            for c in self.controllers.all.iter_mut().filter(|c| c.1 == Role::Master) {
                c.1 = Role::Slave;
            }
        }
        if m.role != Role::NoChange {
            *self.role_of(who) = m.role;
        }
        let role = *self.role_of(who);
        Ok(RoleMsg { role, generation: self.controllers.generation.unwrap_or(u64::MAX) })
    }

    /// Whether a controller may change the switch.
    pub fn may(&mut self, who: u64) -> Result<(), ErrorCode> {
        match self.role_of(who) {
            Role::Slave => Err(ErrorCode::IsSlave),
            _ => Ok(()),
        }
    }

    /// Those who are told of packets, and of flows that are gone: all but slaves (1.3 §6.3.4).
    pub fn listeners(&self) -> Vec<u64> {
        let all = self.controllers.all.iter();
        all.filter(|c| c.1 != Role::Slave).map(|c| c.0).collect()
    }
}
